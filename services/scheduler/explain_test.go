package scheduler

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/leading/leadingtest"
	schedulerv1 "howdah.dev/proto/gen/howdah/scheduler/v1"
)

func explain(t *testing.T, w *world, name string) *schedulerv1.ExplainResponse {
	t.Helper()
	r, err := w.s.Explain(context.Background(), &schedulerv1.ExplainRequest{Namespace: "shop", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestExplain(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) {
		w.addNode(node("a-small", "1"))
		tainted := node("b-tainted", "8")
		tainted.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
		w.addNode(tainted)
		w.addNode(node("c-large", "8"))
	})
	w.addPod(t.Context(), pod("placed", "2"))
	w.awaitPods("the pod to be placed", bound(1))
	w.addPod(t.Context(), pod("pending", "12"))
	w.awaitPods("the other to wait", func(pods map[string]*corev1.Pod) bool { return condition(pods["pending"]) != nil })

	t.Run("of a placed pod", func(t *testing.T) {
		r := explain(t, w, "placed")
		if r.GetNode() != "c-large" || r.GetScheduler() != "default-scheduler" || r.GetMessage() != "" || r.GetQueue() != "" || len(r.GetNodes()) != 3 {
			t.Fatalf("got %v", r)
		}
		best := r.GetNodes()[0]
		if best.GetNode() != "c-large" || !best.GetFeasible() || best.GetScore() == 0 || len(best.GetFilters()) != 14 || len(best.GetScores()) != 8 {
			t.Errorf("the best node is %v", best)
		}
		for _, f := range best.GetFilters() {
			if !f.GetPassed() {
				t.Errorf("a pod is refused by its own node: %v", f)
			}
		}
		want := map[string]string{"a-small": "NodeResourcesFit: Insufficient cpu", "b-tainted": "TaintToleration: node(s) had untolerated taint(s)"}
		for _, n := range r.GetNodes()[1:] {
			if got := refusals(n); n.GetFeasible() || got != want[n.GetNode()] {
				t.Errorf("%s: %q, want %q", n.GetNode(), got, want[n.GetNode()])
			}
		}
	})
	t.Run("of a pending pod", func(t *testing.T) {
		r := explain(t, w, "pending")
		if r.GetNode() != "" || r.GetQueue() != "unschedulable" && r.GetQueue() != "backoff" && r.GetQueue() != "active" {
			t.Errorf("got node %q, queue %q after %d attempts", r.GetNode(), r.GetQueue(), r.GetAttempts())
		}
		if want := "0/3 nodes are available: "; !strings.HasPrefix(r.GetMessage(), want) || !strings.Contains(r.GetMessage(), "2 Insufficient cpu") {
			t.Errorf("the message is %q", r.GetMessage())
		}
		if slices.ContainsFunc(r.GetNodes(), (*schedulerv1.NodeVerdict).GetFeasible) {
			t.Errorf("a node is feasible: %v", r.GetNodes())
		}
	})
	t.Run("of a pod behind a gate, that was made just now", func(t *testing.T) {
		gated := pod("gated", "1")
		gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		w.addPod(t.Context(), gated)
		if r := explain(t, w, "gated"); r.GetMessage() != "Scheduling is blocked due to non-empty scheduling gates" {
			t.Errorf("the message is %q", r.GetMessage())
		}
	})
	t.Run("of no pod", func(t *testing.T) {
		_, err := w.s.Explain(t.Context(), &schedulerv1.ExplainRequest{Namespace: "shop", Name: "none"})
		if !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want NotFound", err)
		}
	})
}

// refusals joins the filters that refused a node with their reasons.
func refusals(n *schedulerv1.NodeVerdict) string {
	var parts []string
	for _, f := range n.GetFilters() {
		if !f.GetPassed() {
			parts = append(parts, f.GetFilter()+": "+strings.Join(f.GetReasons(), ", "))
		}
	}
	return strings.Join(parts, "; ")
}
