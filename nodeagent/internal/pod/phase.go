package pod

import (
	corev1 "k8s.io/api/core/v1"
)

// phase sums up the containers in one word. Those that are owed a run start, whatever became of the last one. Sidecars count while they run: the pod has not
// ended before them, nor by what they end with. While init containers do their work the pod is pending, be it for the first time or anew in another sandbox, as
// after the machine was started anew; active says whether a container of those after them has been made in the sandbox that is.
func phase(pod *corev1.Pod, inits, mains []corev1.ContainerStatus, owed func(name string) bool, active bool) corev1.PodPhase {
	var unknown, running, succeeded, stopped, again int
	for i := range inits {
		c := &pod.Spec.InitContainers[i]
		t := inits[i].State.Terminated
		switch {
		case Sidecar(c):
			if unbegun(inits[i]) && !active {
				return corev1.PodPending
			}
			if inits[i].State.Running != nil {
				running++
			}
		case inits[i].State.Running != nil || unbegun(inits[i]):
			return corev1.PodPending
		case owed(c.Name) && anyRan(mains):
		case t != nil && t.ExitCode == 0:
		case t != nil && !restarts(pod, c, true, t.ExitCode):
			return corev1.PodFailed
		case !anyRan(mains):
			return corev1.PodPending
		}
	}
	for i, s := range mains {
		t := s.State.Terminated
		if t == nil && s.State.Waiting != nil {
			t = s.LastTerminationState.Terminated
		}
		switch {
		case s.State.Running != nil:
			running++
		case t == nil:
			unknown++
		default:
			stopped++
			if t.ExitCode == 0 {
				succeeded++
			}
			if owed(s.Name) || restarts(pod, &pod.Spec.Containers[i], false, t.ExitCode) {
				again++
			}
		}
	}
	switch {
	case unknown > 0:
		return corev1.PodPending
	case running > 0 || again > 0:
		return corev1.PodRunning
	case stopped == succeeded && stopped > 0:
		return corev1.PodSucceeded
	case stopped > 0:
		return corev1.PodFailed
	}
	return corev1.PodPending
}

// endedPhase is the phase of a pod that was ended, whatever its policy says
// of restarts.
func endedPhase(mains []corev1.ContainerStatus) corev1.PodPhase {
	for _, s := range mains {
		if s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 {
			return corev1.PodFailed
		}
	}
	return corev1.PodSucceeded
}

// unbegun reports whether a container has not run yet, or has not begun to do what others wait for.
func unbegun(s corev1.ContainerStatus) bool {
	if s.State.Running != nil {
		return s.Started == nil || !*s.Started
	}
	return s.State.Terminated == nil && s.LastTerminationState.Terminated == nil
}

func anyRan(statuses []corev1.ContainerStatus) bool {
	for _, s := range statuses {
		if s.ContainerID != "" {
			return true
		}
	}
	return false
}
