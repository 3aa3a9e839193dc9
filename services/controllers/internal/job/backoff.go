package job

import (
	"maps"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/services/controllers/internal/pod"
)

const (
	// firstDelay is how long the replacement of a first failed pod waits; each further failure doubles it, up to longestDelay.
	firstDelay   = 10 * time.Second
	longestDelay = 10 * time.Minute
)

// Failures are the failed pods of one job since the last that succeeded. They follow from the pods that there are; what is remembered
// beyond these are pods that have been deleted, whose loss in a failover shortens a delay and does no other harm.
type Failures struct {
	at      map[types.UID]time.Time
	success time.Time
}

// See takes note of the job's pods. It may see the same ones again and again.
func (f *Failures) See(job *batchv1.Job, pods []*corev1.Pod) {
	if f.at == nil {
		f.at = map[types.UID]time.Time{}
	}
	for _, p := range pods {
		switch {
		case p.Status.Phase == corev1.PodSucceeded:
			if end := ended(p); end.After(f.success) {
				f.success = end
			}
		case !failed(job, p) || !tracked(p) && p.DeletionTimestamp != nil: // the latter was not wanted any more
		default:
			if _, known := f.at[p.UID]; !known {
				f.at[p.UID] = ended(p)
			}
		}
	}
	maps.DeleteFunc(f.at, func(_ types.UID, at time.Time) bool { return !at.After(f.success) })
}

// Wait returns for how long no pod may be made in place of those that failed.
func (f *Failures) Wait(now time.Time) time.Duration {
	var last time.Time
	for _, at := range f.at {
		if at.After(last) {
			last = at
		}
	}
	return wait(len(f.at), last, now)
}

// wait returns the rest of the delay after so many failures in a row, the last one at that time.
func wait(failures int, last, now time.Time) time.Duration {
	if failures == 0 {
		return 0
	}
	delay := firstDelay
	for i := 1; i < failures && delay < longestDelay; i++ {
		delay *= 2
	}
	return max(0, min(delay, longestDelay)-now.Sub(last))
}

// ended is when a pod ended: its last container, else its readiness, or when its deletion was asked for.
func ended(p *corev1.Pod) time.Time {
	if at, all := containersEnded(p); all {
		return at
	}
	if c := pod.Condition(p, corev1.PodReady); c != nil && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	if p.DeletionTimestamp != nil {
		return p.DeletionTimestamp.Add(-time.Duration(deref(p.DeletionGracePeriodSeconds)) * time.Second)
	}
	return p.CreationTimestamp.Time
}

// containersEnded returns when the last container of a pod ended, if all have. Sidecars count; other init containers ended long before.
func containersEnded(p *corev1.Pod) (last time.Time, all bool) {
	sidecars := map[string]bool{}
	for _, c := range p.Spec.InitContainers {
		sidecars[c.Name] = deref(c.RestartPolicy) == corev1.ContainerRestartPolicyAlways
	}
	statuses := append([]corev1.ContainerStatus(nil), p.Status.ContainerStatuses...)
	for _, s := range p.Status.InitContainerStatuses {
		if sidecars[s.Name] {
			statuses = append(statuses, s)
		}
	}
	for _, s := range statuses {
		end := s.State.Terminated
		if end == nil || end.FinishedAt.IsZero() {
			return time.Time{}, false
		}
		if end.FinishedAt.After(last) {
			last = end.FinishedAt.Time
		}
	}
	return last, len(statuses) > 0
}
