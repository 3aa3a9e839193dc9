package queue

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pods that look at others wait for those, and each group is asked once.
func TestOthersWakePodsThatLookAtThem(t *testing.T) {
	t.Parallel()
	q, clock := setup()
	near := func(name string) *corev1.Pod {
		p := pod(name, 0)
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}
		return p
	}
	spread := pod("spread", 0)
	spread.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{}}
	for group, pods := range [][]*corev1.Pod{{near("a"), near("b")}, {spread}, {pod("alone", 0)}} {
		for _, p := range pods {
			q.Add(p, uint64(group))
		}
		for _, item := range next(t, q) {
			q.Fail(item, false)
		}
	}
	clock.Step(30 * time.Second)
	asked := 0
	q.WakeSociable(AssignedPodAdd, func(p *corev1.Pod) bool {
		asked++
		return p.Spec.Affinity != nil
	})
	if asked != 2 {
		t.Errorf("asked %d times, want once for each of two groups", asked)
	}
	woken := next(t, q)
	if names(woken) != "ab" {
		t.Fatalf("popped %q", names(woken))
	}
	q.WakeSociable(AssignedPodAdd, func(*corev1.Pod) bool { return false }) // what is being tried may have been looked at before
	for _, item := range woken {
		q.Fail(item, false)
	}
	for name, want := range map[string]State{"a": Backoff, "b": Backoff, "spread": Unschedulable, "alone": Unschedulable} {
		if state, _ := q.Lookup(types.UID(name)); state != want {
			t.Errorf("%s is %s, want %s", name, state, want)
		}
	}
}
