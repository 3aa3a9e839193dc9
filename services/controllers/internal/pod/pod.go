// Package pod answers the questions that several controllers ask of a pod.
package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition returns the condition of a type, or nil.
func Condition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// SetCondition puts a condition, in the place of the one of its type. It is of the pod's generation, and its time moves only with its status.
// It reports whether anything is said that was not.
func SetCondition(p *corev1.Pod, c corev1.PodCondition, now time.Time) bool {
	c.ObservedGeneration, c.LastTransitionTime = p.Generation, metav1.NewTime(now)
	had := Condition(p, c.Type)
	if had == nil {
		p.Status.Conditions = append(p.Status.Conditions, c)
		return true
	}
	if had.Status == c.Status {
		c.LastTransitionTime = had.LastTransitionTime
	}
	changed := had.Status != c.Status || had.Reason != c.Reason || had.Message != c.Message
	*had = c
	return changed
}

// Ready says whether the pod's Ready condition is true.
func Ready(p *corev1.Pod) bool {
	c := Condition(p, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// Available says whether the pod has been ready for minReady at now. Where
// it is ready but not yet for so long, after is the rest of the wait.
func Available(p *corev1.Pod, minReady time.Duration, now time.Time) (available bool, after time.Duration) {
	c := Condition(p, corev1.PodReady)
	if c == nil || c.Status != corev1.ConditionTrue {
		return false, 0
	}
	if minReady == 0 {
		return true, 0
	}
	if c.LastTransitionTime.IsZero() {
		return false, 0
	}
	rest := c.LastTransitionTime.Add(minReady).Sub(now)
	if rest <= 0 {
		return true, 0
	}
	return false, rest
}

// Terminal says whether the pod has ended for good.
func Terminal(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// Terminating says whether the pod is on its way out, but not yet ended.
func Terminating(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil && !Terminal(p)
}

// Active says whether the pod counts as a replica: neither ended nor ending.
func Active(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && !Terminal(p)
}

// Claims returns the names of the claims that a pod mounts.
func Claims(p *corev1.Pod) []string {
	var names []string
	for i := range p.Spec.Volumes {
		switch v := &p.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, p.Name+"-"+v.Name)
		}
	}
	return names
}
