package cycle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/filter"
)

func node(name, cpu, memory string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory), "pods": resource.MustParse("110"),
		}},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func tainted(effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "dedicated", Value: "db", Effect: effect})
	}
}

func pod(name, cpu string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
	}
	if cpu != "" {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpu)}
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func onNode(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = name }
}

func hostPort(port int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: port, Protocol: corev1.ProtocolTCP}}
	}
}

func apart(p *corev1.Pod) {
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}},
	}}
}

func spreadOver(p *corev1.Pod) {
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		TopologyKey: "kubernetes.io/hostname", MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}}
}

func selecting(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}

// named has a required affinity of nodes by their names, as pods of DaemonSets have.
func named(nodes ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: nodes}},
			}}},
		}}
	}
}

func snapshot(nodes []*corev1.Node, pods ...*corev1.Pod) cluster.Snapshot {
	cache := cluster.NewCache()
	for _, n := range nodes {
		cache.SetNode(n)
	}
	for _, p := range pods {
		cache.SetPod(p)
	}
	return cache.Snapshot()
}

func first(int) int { return 0 }

func place(pods []*corev1.Pod, s cluster.Snapshot) []Placement {
	placements, _ := Default().Place(pods, s, first, time.Now)
	return placements
}

// restartingAll is a pod in which the end of one container restarts all.
func restartingAll(p *corev1.Pod) {
	p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
}

func declaring(features ...string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.DeclaredFeatures = features }
}

// TestANodeThatDeclaresTheFeatureIsTaken: by all pods that need it; those that do not go where they would.
func TestANodeThatDeclaresTheFeatureIsTaken(t *testing.T) {
	t.Parallel()
	s := snapshot([]*corev1.Node{node("n1", "8", "8Gi"), node("n2", "1", "1Gi", declaring("Other", "RestartAllContainersOnContainerExits"))})
	placed := place([]*corev1.Pod{pod("a", "100m", restartingAll), pod("b", "100m", restartingAll)}, s)
	if placed[0].Node != "n2" || placed[1].Node != "n2" {
		t.Errorf("placed %+v", placed)
	}
	if got := place([]*corev1.Pod{pod("c", "100m")}, s)[0]; got.Node != "n1" {
		t.Errorf("a pod that needs no feature is on %s", got.Node)
	}
	explained := Default().Explain(pod("a", "100m", restartingAll), s)
	for _, n := range explained.Nodes {
		if n.Feasible != (n.Node == "n2") {
			t.Errorf("explained as %+v", n)
		}
	}
}

func TestPlaceSaysWhyNot(t *testing.T) {
	t.Parallel()
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	claim := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}
	tests := []struct {
		name  string
		pod   *corev1.Pod
		nodes []*corev1.Node
		pods  []*corev1.Pod
		want  string
	}{
		{"no nodes", pod("a", "1"), nil, nil, "no nodes available to schedule pods"},
		{"a feature that no node declares", pod("a", "1", restartingAll), []*corev1.Node{node("n1", "2", "4Gi"), node("n2", "2", "4Gi", declaring("Other"))}, nil,
			"0/2 nodes are available: 2 node(s) didn't match Pod's required features."},
		{"users of its own on the node's network", pod("a", "1", func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.HostUsers = true, new(false) }),
			[]*corev1.Node{node("n1", "2", "4Gi", declaring("RestartAllContainersOnContainerExits"))}, nil,
			"0/1 nodes are available: 1 node(s) didn't match Pod's required features."},
		{"too big", pod("a", "3"), []*corev1.Node{node("n1", "2", "4Gi"), node("n2", "1", "4Gi")}, nil,
			"0/2 nodes are available: 2 Insufficient cpu."},
		{"taken by others", pod("a", "2"), []*corev1.Node{node("n1", "2", "4Gi")}, []*corev1.Pod{pod("b", "100m", onNode("n1"))},
			"0/1 nodes are available: 1 Insufficient cpu."},
		{"each node by its first reason", pod("a", "2"),
			[]*corev1.Node{node("n1", "1", "4Gi", cordoned), node("n2", "1", "4Gi", tainted(corev1.TaintEffectNoSchedule)), node("n3", "1", "4Gi")}, nil,
			"0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable."},
		{"selector", pod("a", "", selecting("disk", "ssd")), []*corev1.Node{node("n1", "1", "4Gi")}, nil,
			"0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."},
		{"one node by name, which is full", pod("a", "2", named("n2")), []*corev1.Node{node("n1", "4", "4Gi"), node("n2", "1", "4Gi"), node("n3", "4", "4Gi")}, nil,
			"0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."},
		{"two nodes by name at once", pod("a", "", named("n2"), func(p *corev1.Pod) {
			term := &p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
			term.MatchFields = append(term.MatchFields, corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}})
		}), []*corev1.Node{node("n1", "4", "4Gi"), node("n2", "4", "4Gi")}, nil,
			"0/2 nodes are available: pod affinity terms conflict."},
		{"a node that is gone", pod("a", "", named("n2")), []*corev1.Node{node("n1", "4", "4Gi")}, nil,
			"0/1 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeAffinity]."},
		{"host port", pod("a", "", hostPort(80)), []*corev1.Node{node("n1", "1", "4Gi")}, []*corev1.Pod{pod("b", "", onNode("n1"), hostPort(80))},
			"0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."},
		{"anti-affinity", pod("a", "", apart), []*corev1.Node{node("n1", "1", "4Gi")}, []*corev1.Pod{pod("b", "", onNode("n1"))},
			"0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."},
		{"others' anti-affinity", pod("a", ""), []*corev1.Node{node("n1", "1", "4Gi")}, []*corev1.Pod{pod("b", "", onNode("n1"), apart)},
			"0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules."},
		{"no claim, whatever the node", pod("a", "", claim), []*corev1.Node{node("n1", "1", "4Gi", cordoned)}, nil,
			`0/1 nodes are available: persistentvolumeclaim "data" not found.`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := place([]*corev1.Pod{tt.pod}, snapshot(tt.nodes, tt.pods...))
			if got[0].Node != "" || got[0].Message != tt.want {
				t.Errorf("got node %q, message %q, want %q", got[0].Node, got[0].Message, tt.want)
			}
			explained := Default().Explain(tt.pod, snapshot(tt.nodes, tt.pods...))
			if explained.Message != tt.want {
				t.Errorf("Explain says %q, want %q", explained.Message, tt.want)
			}
		})
	}
}

func TestPlacePrefers(t *testing.T) {
	t.Parallel()
	withImage := func(n *corev1.Node) {
		n.Status.Images = []corev1.ContainerImage{{Names: []string{"nginx:latest"}, SizeBytes: 900 << 20}}
	}
	labelled := func(n *corev1.Node) { n.Labels["disk"] = "ssd" }
	wish := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 10, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: "In", Values: []string{"ssd"}}}},
		}}}}
	}
	tests := []struct {
		name  string
		pod   *corev1.Pod
		nodes []*corev1.Node
		pods  []*corev1.Pod
		want  string
	}{
		{"the emptier node", pod("a", "100m"), []*corev1.Node{node("n1", "2", "4Gi"), node("n2", "2", "4Gi")}, []*corev1.Pod{pod("b", "1", onNode("n1"))}, "n2"},
		{"the emptier node by defaults", pod("a", ""), []*corev1.Node{node("n1", "2", "4Gi"), node("n2", "2", "4Gi")}, []*corev1.Pod{pod("b", "", onNode("n1"))}, "n2"},
		{"the node with the image", pod("a", "100m"), []*corev1.Node{node("n1", "2", "4Gi"), node("n2", "2", "4Gi", withImage)}, nil, "n2"},
		{"the untainted node", pod("a", "100m"), []*corev1.Node{node("n1", "2", "4Gi", tainted(corev1.TaintEffectPreferNoSchedule)), node("n2", "2", "4Gi")}, nil, "n2"},
		{"the wished node", pod("a", "100m", wish), []*corev1.Node{node("n1", "2", "4Gi"), node("n2", "2", "4Gi", labelled)}, nil, "n2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := snapshot(tt.nodes, tt.pods...)
			if got := place([]*corev1.Pod{tt.pod}, s); got[0].Node != tt.want {
				t.Errorf("placed on %q, want %q", got[0].Node, tt.want)
			}
			if best := Default().Explain(tt.pod, s).Nodes[0]; best.Node != tt.want {
				t.Errorf("Explain puts %q first, want %q", best.Node, tt.want)
			}
		})
	}
}

func TestAGroupSpreadsOverEqualNodes(t *testing.T) {
	t.Parallel()
	nodes := []*corev1.Node{node("n1", "4", "8Gi"), node("n2", "4", "8Gi"), node("n3", "4", "8Gi")}
	var pods []*corev1.Pod
	for i := range 9 {
		pods = append(pods, pod(fmt.Sprint("p", i), "100m"))
	}
	counts := map[string]int{}
	for _, p := range place(pods, snapshot(nodes)) {
		counts[p.Node]++
	}
	if diff := cmp.Diff(map[string]int{"n1": 3, "n2": 3, "n3": 3}, counts); diff != "" {
		t.Error(diff)
	}
}

// TestSiblingsSpread: the pods of one controller go to both nodes, though one
// of them is much fuller with others' pods.
func TestSiblingsSpread(t *testing.T) {
	t.Parallel()
	nodes := []*corev1.Node{node("n1", "4", "8Gi"), node("n2", "4", "8Gi")}
	owned := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: ptr.To(true)}}
	}
	s := snapshot(nodes, pod("others", "2", onNode("n2"), func(p *corev1.Pod) { p.Labels["app"] = "db" }))
	s.Kin.SetController("rs", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}})
	counts := map[string]int{}
	for _, p := range place([]*corev1.Pod{pod("a", "", owned), pod("b", "", owned), pod("c", "", owned)}, s) {
		counts[p.Node]++
	}
	if diff := cmp.Diff(map[string]int{"n1": 2, "n2": 1}, counts); diff != "" {
		t.Error(diff)
	}
}

// TestDefaultConstraintsRefuse: they hold for pods of a Service that have none of their own, and within a group.
func TestDefaultConstraintsRefuse(t *testing.T) {
	t.Parallel()
	profile := Default()
	for i, f := range profile.Filters {
		if f.Name == "PodTopologySpread" {
			profile.Filters[i] = filter.PodTopologySpread([]corev1.TopologySpreadConstraint{{TopologyKey: "kubernetes.io/hostname", MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule}})
		}
	}
	s := snapshot([]*corev1.Node{node("n1", "4", "8Gi"), node("n2", "100m", "8Gi")})
	ofItsOwn := func(p *corev1.Pod) {
		spreadOver(p)
		p.Spec.TopologySpreadConstraints[0].WhenUnsatisfiable = corev1.ScheduleAnyway
	}
	pods := func(change ...func(*corev1.Pod)) []*corev1.Pod {
		return []*corev1.Pod{pod("a", "200m", change...), pod("b", "200m", change...)}
	}
	for _, tt := range []struct {
		name    string
		pods    []*corev1.Pod
		service string // the app that it selects
		refused bool   // the second, for n2 is too small and n1 would have two
	}{
		{"nobody selects them", pods(), "db", false},
		{"a service does", pods(), "web", true},
		{"they have one of their own", pods(ofItsOwn), "web", false},
	} {
		s := s
		s.Kin.SetService(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": tt.service}}})
		got, _ := profile.Place(tt.pods, s, first, time.Now)
		if got[0].Node != "n1" || (got[1].Node == "") != tt.refused {
			t.Errorf("%s: placed on %q and %q", tt.name, got[0].Node, got[1].Node)
		}
		if want := "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints."; tt.refused && got[1].Message != want {
			t.Errorf("%s: %q", tt.name, got[1].Message)
		}
	}
}

func TestConstraintsAcrossNodesHoldWithinAGroup(t *testing.T) {
	t.Parallel()
	nodes := []*corev1.Node{node("n1", "4", "8Gi"), node("n2", "4", "8Gi"), node("n3", "4", "8Gi")}
	for name, constraint := range map[string]func(*corev1.Pod){"anti-affinity": apart, "spread": spreadOver, "host port": hostPort(80)} {
		var pods []*corev1.Pod
		for i := range 4 {
			pods = append(pods, pod(fmt.Sprint("p", i), "100m", constraint))
		}
		var placed []string
		for _, p := range place(pods[:3], snapshot(nodes)) {
			placed = append(placed, p.Node)
		}
		slices.Sort(placed)
		if !slices.Equal(placed, []string{"n1", "n2", "n3"}) {
			t.Errorf("%s: placed on %v, want one on each node", name, placed)
		}
		if name == "spread" {
			continue // a fourth is allowed: the skew is 1 then
		}
		if last := place(pods, snapshot(nodes))[3]; last.Node != "" || !strings.HasPrefix(last.Message, "0/3 nodes are available: 3 ") {
			t.Errorf("%s: the fourth was placed on %q (%q)", name, last.Node, last.Message)
		}
	}
}

// TestNothingIsOvercommitted places random pods on random nodes, and checks
// that no node ever has more than it can, and that a pod was refused only
// where no node had room.
func TestNothingIsOvercommitted(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var nodes []*corev1.Node
		for i := range 1 + random.IntN(6) {
			nodes = append(nodes, node(fmt.Sprint("n", i), fmt.Sprint(1+random.IntN(8)), "16Gi"))
		}
		cache := cluster.NewCache()
		for _, n := range nodes {
			cache.SetNode(n)
		}
		for g := range 6 {
			cpu := fmt.Sprint(100*(1+random.IntN(15)), "m")
			var pods []*corev1.Pod
			for i := range 1 + random.IntN(12) {
				pods = append(pods, pod(fmt.Sprint("p", g, "-", i), cpu))
			}
			placements, _ := Default().Place(pods, cache.Snapshot(), random.IntN, time.Now)
			if len(placements) != len(pods) {
				t.Fatalf("seed %d: %d placements of %d pods", seed, len(placements), len(pods))
			}
			for _, p := range placements {
				if p.Node == "" {
					continue
				}
				bound := *p.Pod
				bound.Spec.NodeName = p.Node
				cache.Assume(&bound, cluster.DemandOf(&bound))
			}
			wanted := cluster.Requests(pods[0]).MilliCPU
			for _, n := range cache.Snapshot().Nodes {
				left := n.Allocatable.MilliCPU - n.Requested.MilliCPU
				if left < 0 {
					t.Fatalf("seed %d: node %s is overcommitted by %dm", seed, n.Name, -left)
				}
				if refused := slices.ContainsFunc(placements, func(p Placement) bool { return p.Node == "" }); refused && left >= wanted {
					t.Fatalf("seed %d: a pod of %dm was refused though %s has %dm left", seed, wanted, n.Name, left)
				}
			}
		}
	}
}

func BenchmarkPlace(b *testing.B) {
	var nodes []*corev1.Node
	for i := range 1000 {
		nodes = append(nodes, node(fmt.Sprint("n", i), "32", "64Gi"))
	}
	s := snapshot(nodes)
	for _, size := range []int{1, 1000} {
		var pods []*corev1.Pod
		for i := range size {
			pods = append(pods, pod(fmt.Sprint("p", i), "100m"))
		}
		b.Run(fmt.Sprintf("group of %d on 1000 nodes", size), func(b *testing.B) {
			for range b.N {
				place(pods, s)
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "pods/s")
		})
	}
}

// TestDaemonPods: a pod that names its node goes there, though it is cordoned, and no other node is asked.
func TestDaemonPods(t *testing.T) {
	t.Parallel()
	cordoned := node("n2", "4", "4Gi", func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
	})
	daemon := pod("a", "", named("n2"), func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	})
	nodes := snapshot([]*corev1.Node{node("n1", "4", "4Gi"), cordoned, node("n3", "4", "4Gi")})
	if got := place([]*corev1.Pod{daemon}, nodes)[0]; got.Node != "n2" {
		t.Errorf("placed %+v", got)
	}
	if r := newRound(Default(), daemon, nodes, nil); r.askedCount() != 1 {
		t.Errorf("%d nodes were asked, want 1", r.askedCount())
	}
	anywhere := pod("b", "", named("n1"))
	terms := &anywhere.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	*terms = append(*terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpExists}}})
	if r := newRound(Default(), anywhere, nodes, nil); r.askedCount() != 3 {
		t.Errorf("%d nodes were asked for a pod with an alternative, want 3", r.askedCount())
	}
}
