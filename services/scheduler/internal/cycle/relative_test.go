package cycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/services/scheduler/internal/cluster"
)

// wishing has preferences for nodes by the label "disk", each worth its weight.
func wishing(weights map[string]int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		var terms []corev1.PreferredSchedulingTerm
		for disk, weight := range weights {
			terms = append(terms, corev1.PreferredSchedulingTerm{Weight: weight, Preference: corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{disk}}},
			}})
		}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}}
	}
}

func withDisk(kind string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels["disk"] = kind }
}

// taints are as many as are untolerated, each avoided where there is a choice.
func taints(count int) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for range count {
			tainted(corev1.TaintEffectPreferNoSchedule)(n)
		}
	}
}

// TestTheBestThatIsLeftCounts: once the node that all are measured by is full, the others are measured by the best or the worst of them, for pods that are
// placed together as for those that come one by one.
func TestTheBestThatIsLeftCounts(t *testing.T) {
	t.Parallel()
	busy := []*corev1.Pod{pod("busy", "6", onNode("b"))}
	image := func(n *corev1.Node) {
		n.Status.Images = []corev1.ContainerImage{{Names: []string{"nginx:latest"}, SizeBytes: 1500 << 20}}
	}
	onePod := func(n *corev1.Node) { n.Status.Allocatable["pods"] = resource.MustParse("1") }
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		nodes  []*corev1.Node
		pods   []*corev1.Pod
		want   []string
	}{
		"wishes": {
			wishing(map[string]int32{"ssd": 100, "hdd": 5}),
			[]*corev1.Node{node("a", "1", "8Gi", withDisk("ssd")), node("b", "10", "80Gi", withDisk("hdd")), node("c", "10", "80Gi")},
			busy,
			[]string{"a", "b", "b"},
		},
		"no wishes that are met": {
			wishing(map[string]int32{"ssd": 100}),
			[]*corev1.Node{node("a", "1", "8Gi", withDisk("ssd")), node("b", "10", "80Gi"), node("c", "10", "80Gi")},
			busy,
			[]string{"a", "c", "c"},
		},
		"taints": {
			wishing(map[string]int32{"ssd": 100}),
			[]*corev1.Node{node("a", "10", "80Gi", withDisk("ssd"), taints(4), image, onePod), node("b", "10", "80Gi", taints(2), image), node("c", "10", "80Gi", taints(1))},
			nil,
			[]string{"a", "c", "c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pods []*corev1.Pod
			for _, name := range []string{"p1", "p2", "p3"} {
				pods = append(pods, pod(name, "600m", c.change))
			}
			together := nodesOf(place(pods, snapshot(c.nodes, c.pods...)))
			if diff := cmp.Diff(oneByOne(pods, snapshot(c.nodes, c.pods...)), together); diff != "" {
				t.Errorf("placed one by one (-) and together (+): %s", diff)
			}
			if diff := cmp.Diff(c.want, together); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func nodesOf(placements []Placement) (nodes []string) {
	for _, p := range placements {
		nodes = append(nodes, p.Node)
	}
	return nodes
}

// oneByOne places each pod alone, with those before it on their nodes.
func oneByOne(pods []*corev1.Pod, s cluster.Snapshot) (nodes []string) {
	for _, p := range pods {
		placed := place([]*corev1.Pod{p}, s)[0]
		nodes = append(nodes, placed.Node)
		if i, ok := s.Index(placed.Node); ok {
			bound := *p
			bound.Spec.NodeName = placed.Node
			s.Nodes[i] = s.Nodes[i].With(&bound, cluster.DemandOf(p))
		}
	}
	return nodes
}
