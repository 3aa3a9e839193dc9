package disruption

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

var now = time.Unix(1_700_000_000, 0)

func pod(name, owner string, ready bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: ptr.To(true)}}
	}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	return p
}

// scale knows two ReplicaSets of one Deployment, and one of none.
func scale(owner *metav1.OwnerReference, _ string) (types.UID, int32, error) {
	switch owner.Name {
	case "old", "new":
		return "deployment", 4, nil
	case "alone":
		return "alone", 2, nil
	}
	return "", 0, errors.New("nobody knows")
}

func TestDecide(t *testing.T) {
	t.Parallel()
	four := []*corev1.Pod{pod("a", "old", true), pod("b", "new", true), pod("c", "new", true), pod("d", "new", false)}
	least := func(v string) policyv1.PodDisruptionBudgetSpec {
		return policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.Parse(v))}
	}
	most := func(v string) policyv1.PodDisruptionBudgetSpec {
		return policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.Parse(v))}
	}
	for name, test := range map[string]struct {
		spec                                policyv1.PodDisruptionBudgetSpec
		pods                                []*corev1.Pod
		expected, desired, healthy, allowed int32
	}{
		"number":           {least("2"), four, 4, 2, 3, 1},
		"too many":         {least("4"), four, 4, 4, 3, 0},
		"portion":          {least("50%"), four, 4, 2, 3, 1},
		"rounded up":       {least("51%"), four, 4, 3, 3, 0},
		"unavailable":      {most("1"), four, 4, 3, 3, 0},
		"unavailable more": {most("50%"), four, 4, 2, 3, 1},
		"everything":       {most("100%"), four, 4, 0, 3, 3},
		"two owners":       {least("50%"), append([]*corev1.Pod{pod("e", "alone", true)}, four...), 6, 3, 4, 1},
		"unmanaged":        {most("1"), append([]*corev1.Pod{pod("e", "", true)}, four...), 4, 3, 4, 1},
		"none":             {least("0"), nil, 0, 0, 0, 0},
		"neither":          {policyv1.PodDisruptionBudgetSpec{}, four, 0, 0, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &policyv1.PodDisruptionBudget{Spec: test.spec}
			b.Generation = 3
			p, err := Decide(b, test.pods, scale, now)
			if err != nil {
				t.Fatal(err)
			}
			s := p.Status
			if s.ExpectedPods != test.expected || s.DesiredHealthy != test.desired || s.CurrentHealthy != test.healthy || s.DisruptionsAllowed != test.allowed || s.ObservedGeneration != 3 {
				t.Errorf("status %+v", s)
			}
			if c := s.Conditions[0]; (c.Status == metav1.ConditionTrue) != (test.allowed > 0) {
				t.Errorf("condition %+v", c)
			}
			b.Status = s
			if again, err := Decide(b, test.pods, scale, now.Add(time.Hour)); err != nil || !Same(b, again.Status) {
				t.Errorf("it does not stay: %+v, %v", again.Status, err)
			}
		})
	}
	if _, err := Decide(&policyv1.PodDisruptionBudget{Spec: most("1")}, []*corev1.Pod{pod("a", "custom", true)}, scale, now); err == nil {
		t.Error("an owner that nobody knows is counted")
	}
	b := &policyv1.PodDisruptionBudget{Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 3}}
	if s := Failed(b, errors.New("why"), now); s.DisruptionsAllowed != 0 || s.Conditions[0].Reason != policyv1.SyncFailedReason || s.Conditions[0].Message != "why" {
		t.Errorf("failed: %+v", s)
	}
}

func TestEvictionsCountUntilTheyAreSeen(t *testing.T) {
	t.Parallel()
	going := pod("going", "old", true)
	going.DeletionTimestamp = &metav1.Time{Time: now}
	b := &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1))}}
	b.Status.DisruptedPods = map[string]metav1.Time{
		"going": metav1.NewTime(now), "fresh": metav1.NewTime(now.Add(-time.Minute)), "late": metav1.NewTime(now.Add(-3 * time.Minute)), "gone": metav1.NewTime(now),
	}
	p, err := Decide(b, []*corev1.Pod{going, pod("fresh", "old", true), pod("late", "old", true), pod("other", "old", true)}, scale, now)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Status.DisruptedPods) != 1 || p.Recheck != time.Minute || len(p.Late) != 1 || p.Status.CurrentHealthy != 2 || p.Status.DisruptionsAllowed != 1 {
		t.Errorf("plan %+v", p)
	}
}
