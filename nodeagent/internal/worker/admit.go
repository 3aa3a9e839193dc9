package worker

import (
	"context"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/admit"
	"howdah.dev/nodeagent/internal/pod"
)

// freshTimeout bounds the look at the node before a refusal.
const freshTimeout = 10 * time.Second

// admit decides whether the node takes a new pod: failure is nil where it does. One pod is decided after the other, so that what one gets is
// gone for the next. A pod that the system needs has its place at once; it has to wait until the pods that make room for it have ended.
func (m *Manager) admit(ctx context.Context, p *corev1.Pod) (failure *pod.Failure, room []<-chan struct{}) {
	m.admission.Lock()
	defer m.admission.Unlock()
	failure, _ = m.check(ctx, p, admit.Early)
	if failure == nil {
		failure = m.cfg.Assigner.Admit(ctx, p)
	}
	if failure == nil {
		var site admit.Site
		if failure, site = m.check(ctx, p, admit.Late); failure != nil {
			if victims := admit.Preempt(p, site); len(victims) > 0 {
				failure, room = nil, m.preempt(victims, strings.TrimPrefix(failure.Reason, "OutOf"))
			}
		}
	}
	if failure == nil {
		m.mu.Lock()
		m.taken[p.UID] = true
		m.mu.Unlock()
		return nil, room
	}
	m.reject(p, failure)
	return failure, nil
}

// readmit decides whether a pod that is to begin anew, as after the machine was, still gets what was its own: the devices may be gone, or nobody there yet who has
// them. It has its place otherwise.
func (m *Manager) readmit(ctx context.Context, p *corev1.Pod) *pod.Failure {
	m.admission.Lock()
	defer m.admission.Unlock()
	failure := m.cfg.Assigner.Admit(ctx, p)
	if failure != nil {
		m.reject(p, failure)
	}
	return failure
}

// reject takes back what a pod got, and tells of it.
func (m *Manager) reject(p *corev1.Pod, why *pod.Failure) {
	m.cfg.Assigner.Release(p.UID)
	m.cfg.Metrics.rejected(why.Reason)
	m.cfg.Events.Event(p, "", corev1.EventTypeWarning, why.Reason, why.Message)
}

// refuse ends a pod that the node took, and finds that it cannot have.
func (w *worker) refuse(p *corev1.Pod, why *pod.Failure) {
	if w.evict(why) {
		w.cfg.Metrics.rejected(why.Reason)
		w.cfg.Events.Event(p, "", corev1.EventTypeWarning, why.Reason, why.Message)
	}
}

// Evict ends a pod that uses more than it may. It reports whether it was the first to end it.
func (m *Manager) Evict(p *corev1.Pod, why *pod.Failure) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, ok := m.workers[p.UID]
	if !ok || !w.evict(why) {
		return false
	}
	m.cfg.Events.Event(p, "", corev1.EventTypeWarning, why.Reason, why.Message)
	return true
}

// preempt ends pods for what is lacking, and returns what is closed when they have ended.
func (m *Manager) preempt(victims []*corev1.Pod, lacking string) []<-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	var room []<-chan struct{}
	for _, victim := range victims {
		w, ok := m.workers[victim.UID]
		if !ok {
			continue // it has ended just now
		}
		if why := admit.Preempted(); w.evict(why) {
			m.cfg.Events.Event(victim, "", corev1.EventTypeWarning, why.Reason, why.Message)
			m.cfg.Metrics.preempted(lacking)
		}
		room = append(room, w.stopped)
	}
	return room
}

// check asks for the pod what one half of the checks says. A refusal is for good: it is not by a node that may have changed since.
func (m *Manager) check(ctx context.Context, p *corev1.Pod, half func(*corev1.Pod, admit.Site) *pod.Failure) (*pod.Failure, admit.Site) {
	site := m.cfg.Site()
	site.Others = m.placed(site.Others, p.UID)
	failure := half(p, site)
	if failure == nil {
		return nil, site
	}
	ctx, cancel := context.WithTimeout(ctx, freshTimeout)
	defer cancel()
	node, err := m.cfg.FreshNode(ctx)
	if err != nil {
		slog.WarnContext(ctx, "look at the node anew", "namespace", p.Namespace, "name", p.Name, "uid", p.UID, "err", err)
		return failure, site
	}
	site.Node = node
	return half(p, site), site
}

// placed are the pods but one that have their place on the node: taken in this life of the agent, or in an earlier one by what the API holds.
func (m *Manager) placed(all []*corev1.Pod, but types.UID) []*corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*corev1.Pod
	for _, p := range all {
		if p.UID != but && !pod.Finished(p) && (m.taken[p.UID] || p.Status.StartTime != nil) {
			out = append(out, p)
		}
	}
	return out
}
