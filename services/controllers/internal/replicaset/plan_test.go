package replicaset

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

var (
	now = time.Unix(1_700_000_000, 0)
	app = map[string]string{"app": "x"}
)

func newSet(replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", UID: "set", Generation: 1},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}},
		},
	}
}

// newPod returns a ready pod of the set, changed as change says.
func newPod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), Labels: app,
			CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
			OwnerReferences:   []metav1.OwnerReference{*metav1.NewControllerRef(newSet(0), appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Spec: corev1.PodSpec{NodeName: name + "-node"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))},
		}},
	}
	if change != nil {
		change(p)
	}
	return p
}

func TestRankOrder(t *testing.T) {
	t.Parallel()
	// Each pod is cheaper to delete than all that follow.
	pods := []*corev1.Pod{
		newPod("unassigned", func(p *corev1.Pod) { p.Spec.NodeName = "" }),
		newPod("pending", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }),
		newPod("unknown", func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }),
		newPod("unready", func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }),
		newPod("cheap", func(p *corev1.Pod) {
			p.Annotations = map[string]string{"controller.kubernetes.io/pod-deletion-cost": "-5"}
		}),
		newPod("doubled-a", func(p *corev1.Pod) { p.Spec.NodeName = "full" }),
		newPod("doubled-b", func(p *corev1.Pod) { p.Spec.NodeName = "full" }),
		newPod("fresh", func(p *corev1.Pod) {
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-time.Minute))
		}),
		newPod("restarted", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 7}}
		}),
		newPod("young", func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute)) }),
		newPod("plain", nil),
		newPod("dear", func(p *corev1.Pod) {
			p.Annotations = map[string]string{"controller.kubernetes.io/pod-deletion-cost": "100"}
		}),
	}
	for seed := range uint64(20) {
		shuffled := append([]*corev1.Pod(nil), pods...)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for i, p := range rank(shuffled, nil, now) {
			if p.Name != pods[i].Name {
				t.Fatalf("place %d has %s, want %s", i, p.Name, pods[i].Name)
			}
		}
	}
}

func TestRankCountsSiblings(t *testing.T) {
	t.Parallel()
	a, b := newPod("a", nil), newPod("b", nil)
	sibling := newPod("sibling", func(p *corev1.Pod) { p.Spec.NodeName = "b-node" })
	if first := rank([]*corev1.Pod{a, b}, []*corev1.Pod{sibling}, now)[0]; first.Name != "b" {
		t.Errorf("%s goes first, want the one that shares its node with a sibling", first.Name)
	}
}

// TestDecideIsExact: for any mixture of pods, a settled plan brings the
// number of active ones to the wanted number, deletes only what the set owns
// and is active, and does nothing while it is not settled.
func TestDecideIsExact(t *testing.T) {
	t.Parallel()
	selector := labels.SelectorFromSet(app)
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		rs := newSet(rng.Int32N(8))
		var pods []*corev1.Pod
		for i := range rng.IntN(12) {
			pods = append(pods, newPod(fmt.Sprint("p", i), func(p *corev1.Pod) {
				switch rng.IntN(7) {
				case 0:
					p.Status.Phase = corev1.PodFailed
				case 1:
					p.DeletionTimestamp = &metav1.Time{Time: now}
				case 2:
					p.OwnerReferences = nil
				case 3:
					p.Labels = map[string]string{"app": "other"}
				case 4:
					p.OwnerReferences[0].UID = "stranger"
				}
			}))
		}
		plan := Decide(rs, selector, Observed{Pods: pods, Settled: true}, now)
		active := map[types.UID]bool{}
		for _, p := range plan.Own {
			if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
				active[p.UID] = true
			}
		}
		for _, p := range plan.Delete {
			if !active[p.UID] {
				t.Fatalf("seed %d: deletes %s twice, or though it is not an active pod of the set", seed, p.Name)
			}
			delete(active, p.UID)
		}
		if got := int32(len(active) + plan.Create); got != *rs.Spec.Replicas {
			t.Fatalf("seed %d: %d replicas after the plan, want %d", seed, got, *rs.Spec.Replicas)
		}
		for _, p := range append(plan.Adopt, plan.Delete...) {
			if ref := metav1.GetControllerOf(p); ref != nil && ref.UID != rs.UID {
				t.Fatalf("seed %d: takes a stranger's pod", seed)
			}
		}
		if plan := Decide(rs, selector, Observed{Pods: pods}, now); plan.Create+len(plan.Delete) > 0 {
			t.Fatalf("seed %d: acts though it is not settled", seed)
		}
		rs.DeletionTimestamp = &metav1.Time{Time: now}
		if plan := Decide(rs, selector, Observed{Pods: pods, Settled: true}, now); plan.Create+len(plan.Delete)+len(plan.Adopt)+len(plan.Release) > 0 {
			t.Fatalf("seed %d: acts for a set that is being deleted", seed)
		}
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	rs := newSet(4)
	rs.Spec.MinReadySeconds = 60
	own := []*corev1.Pod{
		newPod("available", nil),
		newPod("fresh", func(p *corev1.Pod) {
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-20 * time.Second))
		}),
		newPod("unready", func(p *corev1.Pod) { p.Status.Conditions = nil }),
		newPod("ending", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }),
		newPod("failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
	}
	s, after := Status(rs, own, &Failure{"FailedCreate", "no"}, now)
	if s.Replicas != 3 || s.FullyLabeledReplicas != 3 || s.ReadyReplicas != 2 || s.AvailableReplicas != 1 || *s.TerminatingReplicas != 1 || s.ObservedGeneration != 1 {
		t.Errorf("status %+v", s)
	}
	if after != 40*time.Second {
		t.Errorf("looks again after %v, want 40s", after)
	}
	if len(s.Conditions) != 1 || s.Conditions[0].Type != appsv1.ReplicaSetReplicaFailure || s.Conditions[0].Reason != "FailedCreate" || s.Conditions[0].Message != "no" {
		t.Errorf("conditions %+v", s.Conditions)
	}
	rs.Status = s
	if s, _ := Status(rs, own, nil, now); len(s.Conditions) != 0 {
		t.Errorf("the failure stays: %+v", s.Conditions)
	}
}
