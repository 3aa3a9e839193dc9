package scheduler

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/leading/leadingtest"
	"howdah.dev/kit/object"
)

// TestAPodWaitsForANodeWithItsFeature: it says why, and goes when a node comes to declare the feature.
func TestAPodWaitsForANodeWithItsFeature(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) { w.addNode(node("n1", "1")) })
	p := pod("p", "10m")
	p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
	w.addPod(t.Context(), p)
	pods := w.awaitPods("the pod to be refused", func(pods map[string]*corev1.Pod) bool { return condition(pods["p"]) != nil })
	if got := condition(pods["p"]).Message; !strings.HasPrefix(got, "0/1 nodes are available: 1 node(s) didn't match Pod's required features.") {
		t.Errorf("it is refused with %q", got)
	}
	n := explain(t, w, "p").GetNodes()[0]
	if last := n.GetFilters()[len(n.GetFilters())-1]; n.GetFeasible() || last.GetFilter() != "NodeDeclaredFeatures" || len(last.GetReasons()) != 1 {
		t.Errorf("explained as %v", n)
	}
	stored, err := object.For(w.client, object.Node).Get(t.Context(), "", "n1")
	if err != nil {
		t.Fatal(err)
	}
	stored.Status.DeclaredFeatures = []string{"RestartAllContainersOnContainerExits"}
	if _, err := object.For(w.client, object.Node).UpdateStatus(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	w.awaitPods("the pod to be bound", bound(1))
}
