package job

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUntrackedPodsHaveNoFinalizer: whatever the cache shows still, and until it shows it.
func TestUntrackedPodsHaveNoFinalizer(t *testing.T) {
	t.Parallel()
	late := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1", Finalizers: []string{"other", batchv1.JobTrackingFinalizer}}}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "2", Finalizers: []string{batchv1.JobTrackingFinalizer}}}
	m := &memo{}
	if err := m.untracked([]*corev1.Pod{late}, nil); err != nil {
		t.Fatal(err)
	}
	pods := m.seen([]*corev1.Pod{late, other})
	if tracked(pods[0]) || len(pods[0].Finalizers) != 1 || !tracked(pods[1]) || !tracked(late) {
		t.Errorf("seen %v", pods)
	}
	shown := late.DeepCopy()
	shown.Finalizers = nil
	if m.seen([]*corev1.Pod{shown, other}); len(m.without) != 0 {
		t.Errorf("%v is remembered though the cache shows it", m.without)
	}
	if pods := m.seen([]*corev1.Pod{late}); !tracked(pods[0]) {
		t.Error("a pod that has the finalizer again is not tracked")
	}
}
