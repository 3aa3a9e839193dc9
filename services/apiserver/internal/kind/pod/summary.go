package pod

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/podspec"
)

// summary is a pod's state in the few words that kubectl get has for it.
type summary struct {
	reason string
	// ready of total: the regular containers and the sidecars.
	ready, total int
	restarts     int
	lastRestart  time.Time
}

// count adds a container's restarts.
func (s *summary) count(c *corev1.ContainerStatus) {
	s.restarts += int(c.RestartCount)
	if t := c.LastTerminationState.Terminated; t != nil && s.lastRestart.Before(t.FinishedAt.Time) {
		s.lastRestart = t.FinishedAt.Time
	}
}

func summarize(p *corev1.Pod) summary {
	s := summary{reason: string(p.Status.Phase), total: len(p.Spec.Containers)}
	if p.Status.Reason != "" {
		s.reason = p.Status.Reason
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.reason = corev1.PodReasonSchedulingGated
		}
	}
	sidecars := map[string]bool{}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; podspec.Sidecar(c) {
			sidecars[c.Name] = true
			s.total++
		}
	}
	if initializing := s.initContainers(p, sidecars); !initializing || isTrue(p, corev1.PodInitialized) {
		s.containers(p, sidecars)
	}
	if p.DeletionTimestamp != nil {
		switch {
		case p.Status.Reason == "NodeLost":
			s.reason = "Unknown"
		case p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded:
			s.reason = "Terminating"
		}
	}
	return s
}

// initContainers looks for the first init container that is not done and says
// so in the reason.
func (s *summary) initContainers(p *corev1.Pod, sidecars map[string]bool) (initializing bool) {
	for i := range p.Status.InitContainerStatuses {
		c := &p.Status.InitContainerStatuses[i]
		s.count(c)
		done := c.State.Terminated
		switch waiting := c.State.Waiting; {
		case done != nil && done.ExitCode == 0:
			continue
		case sidecars[c.Name] && c.Started != nil && *c.Started:
			if c.Ready {
				s.ready++
			}
			continue
		case done != nil:
			s.reason = "Init:" + ended(done)
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
			s.reason = "Init:" + waiting.Reason
		default:
			s.reason = fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers))
		}
		return true
	}
	return false
}

// containers takes the reason from the first regular container that has one.
// Restarts of init containers that are done count no more; sidecars' do.
func (s *summary) containers(p *corev1.Pod, sidecars map[string]bool) {
	s.restarts, s.lastRestart = 0, time.Time{}
	for i := range p.Status.InitContainerStatuses {
		if c := &p.Status.InitContainerStatuses[i]; sidecars[c.Name] {
			s.count(c)
		}
	}
	running := false
	for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &p.Status.ContainerStatuses[i]
		s.count(c)
		switch state := &c.State; {
		case state.Waiting != nil && state.Waiting.Reason != "":
			s.reason = state.Waiting.Reason
		case state.Terminated != nil:
			s.reason = ended(state.Terminated)
		case c.Ready && state.Running != nil:
			running = true
			s.ready++
		}
	}
	// One container is done and another one runs on.
	if s.reason == "Completed" && running {
		s.reason = "NotReady"
		if isTrue(p, corev1.PodReady) {
			s.reason = "Running"
		}
	}
}

func ended(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}
