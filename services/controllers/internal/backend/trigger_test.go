package backend

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTriggers(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	readySince := func(name string, minute int) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(minute))}}}}
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{UID: "s", CreationTimestamp: metav1.NewTime(at(1))}}
	var triggers Triggers
	for _, tt := range []struct {
		name string
		pods []*corev1.Pod
		want time.Time
	}{
		{"a service that is new", []*corev1.Pod{readySince("a", 2)}, at(1)},
		{"nothing has changed", []*corev1.Pod{readySince("a", 2)}, time.Time{}},
		{"the older of two changes", []*corev1.Pod{readySince("a", 7), readySince("b", 5)}, at(5)},
		{"a pod has gone", []*corev1.Pod{readySince("a", 7)}, time.Time{}},
		{"one that says nothing has come", []*corev1.Pod{readySince("a", 7), {}}, time.Time{}},
	} {
		if got := triggers.Last(s, tt.pods); !got.Equal(tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	triggers.Forget(s.UID)
	if got := triggers.Last(s, nil); !got.Equal(at(1)) {
		t.Errorf("after it was forgotten: %v", got)
	}
	annotations := map[string]string{"a": "b"}
	if Annotate(annotations, at(1)); annotations[corev1.EndpointsLastChangeTriggerTime] != "2026-01-01T00:01:00Z" {
		t.Errorf("annotations %v", annotations)
	}
	if Annotate(annotations, time.Time{}); len(annotations) != 1 {
		t.Errorf("annotations %v", annotations)
	}
}
