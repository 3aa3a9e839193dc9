package scheduler

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/leading/leadingtest"
	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"

	"howdah.dev/services/scheduler/internal/preempt"
)

func ranked(name, cpu string, priority int32) *corev1.Pod {
	p := pod(name, cpu)
	p.Spec.Priority = &priority
	return p
}

// kill ends a pod as its node would.
func (w *world) kill(name string) {
	w.Helper()
	if err := object.For(w.client, object.Pod).Delete(w.Context(), "shop", name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		w.Fatal(err)
	}
}

func disruptionOf(p *corev1.Pod) *corev1.PodCondition {
	for i, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// TestPreemption: the pod of the lowest priority goes with its grace period, its node is kept for the preemptor, which takes it when there is room.
func TestPreemption(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) { w.addNode(node("a", "2")); w.addNode(node("b", "2")) })
	for _, p := range []*corev1.Pod{ranked("a-low", "1", 1), ranked("a-middle", "1", 5), ranked("b-middle", "2", 5)} {
		p.Spec.NodeName = p.Name[:1]
		w.addPod(t.Context(), p)
	}
	high := w.addPod(t.Context(), ranked("high", "1", 9))
	pods := w.awaitPods("the victim to go and its node to be kept", func(pods map[string]*corev1.Pod) bool {
		return pods["a-low"] != nil && pods["a-low"].DeletionTimestamp != nil && pods["high"].Status.NominatedNodeName == "a"
	})
	if c := disruptionOf(pods["a-low"]); c == nil || c.Status != corev1.ConditionTrue || c.Reason != "PreemptionByScheduler" ||
		c.Message != "default-scheduler: preempting to accommodate a higher priority pod" {
		t.Errorf("the victim's condition is %+v", c)
	}
	if grace := pods["a-low"].DeletionGracePeriodSeconds; grace == nil || *grace != 30 {
		t.Errorf("the victim has %v s", grace)
	}
	if e := w.awaitEvent("Preempted"); e.InvolvedObject.Name != "a-low" || e.Type != corev1.EventTypeNormal ||
		e.Message != "Preempted by pod "+string(high.UID)+" on node a" {
		t.Errorf("the event is %+v", e)
	}
	if c := condition(pods["high"]); c.Message != "0/2 nodes are available: 2 Insufficient cpu." {
		t.Errorf("the preemptor's condition says %q", c.Message)
	}
	// What comes meanwhile does not get its room, and has nobody removed for it.
	w.addPod(t.Context(), ranked("late", "1", 3))
	w.kill("a-low")
	pods = w.awaitPods("the preemptor to be placed", func(pods map[string]*corev1.Pod) bool { return pods["high"].Spec.NodeName == "a" })
	if pods["high"].Status.NominatedNodeName != "" || pods["a-middle"].DeletionTimestamp != nil || pods["b-middle"].DeletionTimestamp != nil {
		t.Error("a nomination stays, or one went too many")
	}
	pods = w.awaitPods("the late one to wait", func(pods map[string]*corev1.Pod) bool { return condition(pods["late"]) != nil })
	if pods["late"].Spec.NodeName != "" {
		t.Error("the late one took the room")
	}
}

func TestPreemptionIsRefused(t *testing.T) {
	t.Parallel()
	never := ranked("never", "1", 9)
	never.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	w := start(t, leadingtest.New(), func(w *world) {
		w.addNode(node("n", "1"))
		low := ranked("low", "1", 1)
		low.Spec.NodeName = "n"
		w.addPod(t.Context(), low)
	})
	named := ranked("named", "1", 9)
	named.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"other"}},
		}}},
	}}}
	for _, p := range []*corev1.Pod{never, ranked("equal", "1", 1), ranked("large", "8", 9), named} {
		w.addPod(t.Context(), p)
	}
	pods := w.awaitPods("all to be refused", func(pods map[string]*corev1.Pod) bool {
		return condition(pods["never"]) != nil && condition(pods["equal"]) != nil && condition(pods["large"]) != nil && condition(pods["named"]) != nil
	})
	if m := condition(pods["named"]).Message; !strings.HasSuffix(m, " preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.") {
		t.Errorf("named: %q", m)
	}
	for name, want := range map[string]string{
		"never": "preemption: not eligible due to preemptionPolicy=Never.",
		"equal": "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
		"large": "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
	} {
		if m := condition(pods[name]).Message; m != "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "+want {
			t.Errorf("%s: %q", name, m)
		}
	}
	if pods["low"].DeletionTimestamp != nil {
		t.Error("the pod had to go")
	}
}

// TestPreemptionByTheMoreImportant: a node that is kept for one pod goes to another of a higher priority, and budgets choose the victims.
func TestPreemptionByTheMoreImportant(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) {
		w.addNode(node("a", "1"))
		w.addNode(node("b", "1"))
		for _, name := range []string{"a-low", "b-low"} {
			p := ranked(name, "1", 1)
			p.Labels["who"], p.Spec.NodeName = name, name[:1]
			w.addPod(t.Context(), p)
		}
		budget := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"who": "b-low"}}},
		}
		if _, err := object.For(w.client, object.PodDisruptionBudget).Create(t.Context(), budget); err != nil {
			t.Fatal(err)
		}
	})
	w.addPod(t.Context(), ranked("middle", "1", 5))
	w.awaitPods("a node to be kept", func(pods map[string]*corev1.Pod) bool { return pods["middle"].Status.NominatedNodeName == "a" })
	high := ranked("high", "1", 9)
	high.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "a"}
	w.addPod(t.Context(), high)
	w.awaitPods("the node to be kept for another, and its victim to go", func(pods map[string]*corev1.Pod) bool {
		return pods["high"].Status.NominatedNodeName == "a" && pods["middle"].Status.NominatedNodeName != "a" && pods["a-low"].DeletionTimestamp != nil
	})
	w.awaitPods("the other node, as there is no better one", func(pods map[string]*corev1.Pod) bool {
		return pods["middle"].Status.NominatedNodeName == "b" && pods["b-low"].DeletionTimestamp != nil
	})
	w.kill("a-low")
	w.kill("b-low")
	w.awaitPods("each on its node", func(pods map[string]*corev1.Pod) bool {
		return pods["high"].Spec.NodeName == "a" && pods["middle"].Spec.NodeName == "b"
	})
}

// TestPreemptionSurvivesFailures: deletions that fail are tried again, and a new leader finds the nominations in the API.
func TestPreemptionSurvivesFailures(t *testing.T) {
	t.Parallel()
	var failures atomic.Int32
	failures.Store(1)
	leadership := leadingtest.New()
	w := start(t, leadership, func(w *world) {
		w.api.Intercept = func(write objecttest.Write) error {
			if write.Verb == "delete" && strings.HasPrefix(write.Fence, "scheduler/") && failures.Add(-1) >= 0 {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		}
		w.addNode(node("n", "1"))
		low := ranked("low", "1", 1)
		low.Spec.NodeName = "n"
		w.addPod(t.Context(), low)
	})
	w.addPod(t.Context(), ranked("high", "1", 9))
	w.awaitPods("the victim to go at last", func(pods map[string]*corev1.Pod) bool { return pods["low"].DeletionTimestamp != nil })
	leadership.End(t)
	next := leadingtest.New()
	w.scheduler(next)
	w.addPod(t.Context(), ranked("late", "1", 3))
	w.awaitPods("the late one to wait", func(pods map[string]*corev1.Pod) bool { return condition(pods["late"]) != nil })
	w.kill("low")
	w.awaitPods("the preemptor to be placed", func(pods map[string]*corev1.Pod) bool { return pods["high"].Spec.NodeName == "n" })
}

// TestNobodyGoesForRoomThatIsThere has a pod tried again for which there is room since it was refused, and no other removed.
func TestNobodyGoesForRoomThatIsThere(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) { w.addNode(node("n", "2")) })
	w.addPod(t.Context(), ranked("low", "1", 1))
	w.awaitPods("the low one to be placed", func(pods map[string]*corev1.Pod) bool { return pods["low"].Spec.NodeName == "n" })
	room := func(p *corev1.Pod) verdict { return w.s.roomFor(p, w.s.profiles.of(p), preempt.NewBudgets(nil)) }
	if v := room(ranked("fits", "1", 9)); !v.again || v.room != nil || v.why != "" {
		t.Errorf("there is room: %+v", v)
	}
	if v := room(ranked("large", "2", 9)); v.again || v.room == nil || len(v.room.victims) != 1 {
		t.Errorf("there is none: %+v", v)
	}
}

// TestManyPreemptors: alike ones find room on different nodes, and no more pods go than needed.
func TestManyPreemptors(t *testing.T) {
	t.Parallel()
	const count = 20
	w := start(t, leadingtest.New(), func(w *world) {
		addMany(w, object.Node, count, func(i int) *corev1.Node { return node(numbered("node", i), "2") })
		addMany(w, object.Pod, 2*count, func(i int) *corev1.Pod {
			p := ranked(numbered("low", i), "1", 1)
			p.Spec.NodeName = numbered("node", i/2)
			return p
		})
	})
	addMany(w, object.Pod, count, func(i int) *corev1.Pod { return ranked(numbered("high", i), "1", 9) })
	w.awaitPods("nodes to be kept for all", func(pods map[string]*corev1.Pod) bool {
		for name, p := range pods {
			if strings.HasPrefix(name, "high") && p.Status.NominatedNodeName == "" {
				return false
			}
		}
		return len(pods) == 3*count
	})
	pods := w.awaitPods("as many victims", func(pods map[string]*corev1.Pod) bool {
		going := 0
		for _, p := range pods {
			if p.DeletionTimestamp != nil {
				going++
			}
		}
		return going >= count
	})
	for name, p := range pods {
		if p.DeletionTimestamp != nil {
			w.kill(name)
		}
	}
	pods = w.awaitPods("all to be placed", bound(2*count))
	left := 0
	for name, p := range pods {
		if strings.HasPrefix(name, "low") && p.DeletionTimestamp == nil {
			left++
		}
	}
	if left != count {
		t.Errorf("%d of %d are left, want %d", left, 2*count, count)
	}
}
