package worker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/pod"
)

// End ends a pod because of what the node is short of. It returns nil where somebody has ended it before, else what is closed when nothing of it runs.
func (m *Manager) End(p *corev1.Pod, why *pod.Failure) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, ok := m.workers[p.UID]
	if !ok || !w.evict(why) {
		return nil
	}
	return w.stopped
}

// unheard is how long what is left of a pod that the agent itself has ended stays for the sake of its status, if the API does not answer.
const unheard = 5 * time.Second

// Sweep removes what pods that have ended left on the node though they are still in the API: containers, logs and volumes. Statuses are read from
// containers, so they stay until the API knows how they ended, or has not heard of it in time.
func (m *Manager) Sweep(ctx context.Context) error {
	var problems []error
	for _, p := range m.ended() {
		if err := m.sweep(ctx, p); err != nil {
			problems = append(problems, fmt.Errorf("sweep pod %s/%s: %w", p.Namespace, p.Name, err))
		}
	}
	return errors.Join(problems...)
}

// ended are the pods of which nothing runs, nothing will, and everything is told that will be.
func (m *Manager) ended() []*corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*corev1.Pod
	for _, w := range m.workers {
		select {
		case <-w.stopped:
		default:
			continue
		}
		w.mu.Lock()
		p, evicted := w.pod, w.evicted != nil
		w.mu.Unlock()
		if told(p) || evicted && m.cfg.Clock.Since(w.overAt) >= unheard {
			out = append(out, p)
		}
	}
	return out
}

// told says whether the API knows how the pod and each of its containers ended.
func told(p *corev1.Pod) bool {
	if !pod.Finished(p) {
		return false
	}
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].ContainerID != "" && list[i].State.Terminated == nil {
				return false
			}
		}
	}
	return true
}

func (m *Manager) sweep(ctx context.Context, p *corev1.Pod) error {
	observed, err := m.cfg.Observer.Observe(ctx, p.UID)
	if err != nil {
		return err
	}
	if observed.AnyRunning() {
		return nil
	}
	var problems []error
	for i := range observed.Containers {
		problems = append(problems, m.remove(ctx, p, &observed.Containers[i]))
	}
	return errors.Join(append(problems, m.cfg.Volumes.Cleanup(ctx, p.UID))...)
}

func (m *Manager) remove(ctx context.Context, p *corev1.Pod, run *cri.Container) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := m.cfg.Runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: run.ID}); err != nil {
		return err
	}
	m.cfg.Observer.Forget(run.ID)
	return m.cfg.removeLogs(filepath.Join(container.LogDirectory(m.cfg.Node().LogDir, p.Namespace, p.Name, string(p.UID)), run.Name))
}
