// Package tainteviction ends pods on nodes whose NoExecute taints they do not
// tolerate, or no longer.
package tainteviction

import (
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
)

// Plan is what to do with one pod.
type Plan struct {
	Evict bool
	// Due is when its tolerance ends, or has ended; the zero time is never. After is what is left until then.
	Due   time.Time
	After time.Duration
}

// Decide plans one pod on a node with the taints. A taint that is tolerated
// for some seconds counts from when it was added, or from the pod's creation
// where that is later; so a new leader does not begin to count anew.
func Decide(p *corev1.Pod, taints []corev1.Taint, now time.Time) Plan {
	var plan Plan
	for i := range taints {
		t := &taints[i]
		if t.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		due, toleration := since(p, t, now), match(p, t)
		if toleration != nil {
			if toleration.TolerationSeconds == nil {
				continue
			}
			due = due.Add(time.Duration(max(0, *toleration.TolerationSeconds)) * time.Second)
		}
		if plan.Due.IsZero() || due.Before(plan.Due) {
			plan.Due = due
		}
	}
	if !plan.Due.IsZero() {
		plan.After = max(0, plan.Due.Sub(now))
		plan.Evict = plan.After == 0
	}
	return plan
}

// match returns the first toleration of the taint, or nil.
func match(p *corev1.Pod, t *corev1.Taint) *corev1.Toleration {
	for i := range p.Spec.Tolerations {
		if p.Spec.Tolerations[i].ToleratesTaint(logr.Discard(), t, true) {
			return &p.Spec.Tolerations[i]
		}
	}
	return nil
}

func since(p *corev1.Pod, t *corev1.Taint, now time.Time) time.Time {
	start := p.CreationTimestamp.Time
	if t.TimeAdded != nil && t.TimeAdded.After(start) {
		start = t.TimeAdded.Time
	}
	if start.IsZero() || start.After(now) {
		return now
	}
	return start
}
