package cycle

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/services/scheduler/internal/cluster"
)

func priority(value int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = ptr.To(value) }
}

func nominated(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.NominatedNodeName = node }
}

// kept is a snapshot of two nodes, the first of which is kept for the pods.
func kept(pods ...*corev1.Pod) cluster.Snapshot {
	cache := cluster.NewCache()
	cache.SetNode(node("n1", "2", "4Gi"))
	cache.SetNode(node("n2", "1", "4Gi"))
	for _, p := range pods {
		cache.Nominate(p, "n1")
	}
	return cache.Snapshot()
}

func TestNodesAreKept(t *testing.T) {
	t.Parallel()
	first := pod("kept", "2", priority(5), nominated("n1"))
	alike := func(name string) *corev1.Pod { return pod(name, "1", priority(5), nominated("n1")) }
	for name, test := range map[string]struct {
		pods     []*corev1.Pod
		snapshot cluster.Snapshot
		want     []string
	}{
		"from a lower one":                {[]*corev1.Pod{pod("p", "1", priority(1))}, kept(first), []string{"n2"}},
		"from an equal one":               {[]*corev1.Pod{pod("p", "1", priority(5))}, kept(first), []string{"n2"}},
		"not from a higher one":           {[]*corev1.Pod{pod("p", "2", priority(9))}, kept(first), []string{"n1"}},
		"not from itself":                 {[]*corev1.Pod{first}, kept(first), []string{"n1"}},
		"not from each other":             {[]*corev1.Pod{alike("a"), alike("b")}, kept(alike("a"), alike("b")), []string{"n1", "n1"}},
		"what is left is anyone's":        {[]*corev1.Pod{pod("p", "1500m", priority(1))}, kept(pod("kept", "500m", priority(5))), []string{"n1"}},
		"from a crowd":                    {[]*corev1.Pod{pod("a", "1"), pod("b", "1"), pod("c", "1")}, kept(pod("kept", "1", priority(5))), []string{"n1", "n2", ""}},
		"from whom the kept one repels":   {[]*corev1.Pod{pod("p", "100m")}, kept(pod("kept", "100m", priority(5), apart)), []string{"n2"}},
		"from who repels the kept one":    {[]*corev1.Pod{pod("p", "100m", apart)}, kept(pod("kept", "100m", priority(5))), []string{"n2"}},
		"first, though another is better": {[]*corev1.Pod{pod("p", "1", nominated("n2"))}, kept(), []string{"n2"}},
		"unless it has no room":           {[]*corev1.Pod{pod("p", "2", nominated("n2"))}, kept(), []string{"n1"}},
	} {
		var got []string
		for _, p := range place(test.pods, test.snapshot) {
			got = append(got, p.Node)
		}
		slices.Sort(got)
		slices.Sort(test.want)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestExplainTellsOfKeptNodes(t *testing.T) {
	t.Parallel()
	e := Default().Explain(pod("p", "2"), kept(pod("kept", "1", priority(5))))
	if e.Message != "0/2 nodes are available: 2 Insufficient cpu." {
		t.Errorf("the message is %q", e.Message)
	}
	for _, n := range e.Nodes {
		last := n.Filters[len(n.Filters)-1]
		if n.Node == "n1" && (n.Feasible || last.Filter != "NominatedPods" || last.Reasons[0] != "Insufficient cpu") {
			t.Errorf("the kept node: %+v", n)
		}
	}
}

func TestTrial(t *testing.T) {
	t.Parallel()
	small := pod("small", "1", onNode("n1"))
	for name, test := range map[string]struct {
		pod        *corev1.Pod
		node       *corev1.Node
		on         *corev1.Pod
		resolvable bool
		without    bool // the pod fits without the other one
	}{
		"no room":             {pod("p", "2"), node("n1", "2", "4Gi"), small, true, true},
		"never any room":      {pod("p", "3"), node("n1", "2", "4Gi"), small, false, false},
		"a taint":             {pod("p", "2"), node("n1", "2", "4Gi", tainted(corev1.TaintEffectNoSchedule)), small, false, false},
		"another node":        {pod("p", "2", selecting("zone", "a")), node("n1", "2", "4Gi"), small, false, false},
		"a port":              {pod("p", "1", hostPort(80)), node("n1", "2", "4Gi"), pod("o", "1", onNode("n1"), hostPort(80)), true, true},
		"anti-affinity":       {pod("p", "1", apart), node("n1", "2", "4Gi"), small, true, true},
		"others' of it":       {pod("p", "1"), node("n1", "2", "4Gi"), pod("o", "1", onNode("n1"), apart), true, true},
		"it fits":             {pod("p", "1"), node("n1", "2", "4Gi"), small, false, true},
		"a spread, not of it": {pod("p", "2", spreadOver), node("n1", "2", "4Gi"), small, true, true},
	} {
		s := snapshot([]*corev1.Node{test.node}, test.on)
		trial := Default().Trial(test.pod, s)
		n := s.Nodes[0]
		if asked := trial.Asked(); len(asked) != 1 {
			t.Errorf("%s: %d nodes are asked", name, len(asked))
		}
		if got := trial.Resolvable(n); got != test.resolvable {
			t.Errorf("%s: resolvable %v", name, got)
		}
		if got := trial.Refusals(n.Without(test.on.UID, cluster.DemandOf(test.on))); (len(got) == 0) != test.without {
			t.Errorf("%s: without the other: %v", name, got)
		}
	}
}
