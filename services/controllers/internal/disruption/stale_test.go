package disruption

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestStaleDisruptionIsTakenBack(t *testing.T) {
	t.Parallel()
	said := func(reason string, since time.Duration, change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: "m", LastTransitionTime: metav1.NewTime(now.Add(-since))},
		}}}
		for _, c := range change {
			c(p)
		}
		return p
	}
	for name, tt := range map[string]struct {
		pod   *corev1.Pod
		reset bool
		after time.Duration
	}{
		"not for long":        {said("PreemptionByScheduler", 30*time.Second), false, 90 * time.Second},
		"for long":            {said("EvictionByEvictionAPI", 2*time.Minute), true, 0},
		"by its node":         {said(corev1.PodReasonTerminationByKubelet, time.Hour), false, 0},
		"that goes":           {said("PreemptionByScheduler", time.Hour, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }), false, 0},
		"that has ended":      {said("PreemptionByScheduler", time.Hour, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), false, 0},
		"that is said not to": {said("", time.Hour, func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }), false, 0},
		"of which nothing is": {&corev1.Pod{}, false, 0},
	} {
		status, after := Reset(tt.pod, now)
		if (status != nil) != tt.reset || after != tt.after {
			t.Errorf("%s: %v, again after %v", name, status, after)
		}
		if status == nil {
			continue
		}
		want := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(now)}
		if status.Conditions[1] != want || status.Conditions[0] != tt.pod.Status.Conditions[0] || tt.pod.Status.Conditions[1].Reason == "" {
			t.Errorf("%s: %+v", name, status.Conditions)
		}
	}
}
