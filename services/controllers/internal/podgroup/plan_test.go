package podgroup

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFree(t *testing.T) {
	t.Parallel()
	going := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "g", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, Finalizers: []string{"a/b", Finalizer},
	}}
	stays := going.DeepCopy()
	stays.DeletionTimestamp = nil
	let := going.DeepCopy()
	let.Finalizers = []string{"a/b"}
	pod := func(namespace, group string, phase corev1.PodPhase) []*corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
		p.Status.Phase = phase
		if group != "" {
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		}
		return []*corev1.Pod{p}
	}
	for name, test := range map[string]struct {
		group *schedulingv1alpha2.PodGroup
		pods  []*corev1.Pod
		want  bool
	}{
		"empty": {going, nil, true}, "not deleted": {stays, nil, false}, "let go": {let, nil, false},
		"with a pod": {going, pod("n", "g", corev1.PodPending), false}, "with one that ended": {going, pod("n", "g", corev1.PodFailed), true},
		"another group": {going, pod("n", "h", corev1.PodRunning), true}, "another namespace": {going, pod("m", "g", corev1.PodRunning), true},
		"a pod alone": {going, pod("n", "", corev1.PodRunning), true},
	} {
		if got := Free(test.group, test.pods); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
