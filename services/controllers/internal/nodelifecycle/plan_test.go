package nodelifecycle

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Unix(1_700_000_000, 0)

func newNode(name, zone string, conditions ...corev1.NodeCondition) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}, CreationTimestamp: metav1.NewTime(now)},
		Status:     corev1.NodeStatus{Conditions: conditions},
	}
}

func ready(s corev1.ConditionStatus) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: s}
}

func TestSilenced(t *testing.T) {
	t.Parallel()
	n := newNode("n", "", ready(corev1.ConditionTrue), corev1.NodeCondition{Type: "Custom", Status: corev1.ConditionTrue})
	conditions, changed := Silenced(n, now)
	if !changed || len(conditions) != 5 {
		t.Fatalf("%d conditions, changed %v", len(conditions), changed)
	}
	if c := conditions[0]; c.Status != corev1.ConditionUnknown || c.Reason != "NodeStatusUnknown" || c.Message != "Kubelet stopped posting node status." || !c.LastTransitionTime.Time.Equal(now) {
		t.Errorf("Ready: %+v", c)
	}
	if c := conditions[1]; c.Status != corev1.ConditionTrue {
		t.Errorf("another's condition has changed: %+v", c)
	}
	if c := conditions[2]; c.Reason != "NodeStatusNeverUpdated" || c.Message != "Kubelet never posted node status." {
		t.Errorf("%+v", c)
	}
	n.Status.Conditions = conditions
	if _, again := Silenced(n, now.Add(time.Minute)); again {
		t.Error("a silent node changes again")
	}
}

func TestDecideTaints(t *testing.T) {
	t.Parallel()
	custom := corev1.Taint{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}
	initial := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	execute := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}
	for _, c := range []struct {
		name   string
		node   *corev1.Node
		taints []corev1.Taint
		want   []string
		evict  string
	}{
		{name: "ready loses its first taint", node: newNode("n", "", ready(corev1.ConditionTrue)), taints: []corev1.Taint{custom, initial, execute}, want: []string{"team"}},
		{name: "never reported", node: newNode("n", ""), taints: []corev1.Taint{custom, initial}, want: []string{"team"}},
		{name: "not ready", node: newNode("n", "", ready(corev1.ConditionFalse)), want: []string{corev1.TaintNodeNotReady}, evict: corev1.TaintNodeNotReady},
		{name: "not ready, tainted", node: newNode("n", "", ready(corev1.ConditionFalse)), taints: []corev1.Taint{execute}, want: []string{corev1.TaintNodeNotReady, corev1.TaintNodeNotReady}},
		{name: "unreachable after not ready", node: newNode("n", "", ready(corev1.ConditionUnknown)), taints: []corev1.Taint{initial, execute}, want: []string{corev1.TaintNodeUnreachable}, evict: corev1.TaintNodeUnreachable},
		{
			name: "under pressure",
			node: newNode("n", "", ready(corev1.ConditionTrue), corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionUnknown}),
			want: []string{corev1.TaintNodeMemoryPressure},
		},
	} {
		c.node.Spec.Taints = c.taints
		p := DecideTaints(c.node, now)
		var keys []string
		for _, taint := range p.Want {
			keys = append(keys, taint.Key)
		}
		slices.Sort(keys)
		slices.Sort(c.want)
		if !slices.Equal(keys, c.want) {
			t.Errorf("%s: taints %v, want %v", c.name, keys, c.want)
		}
		evict := ""
		if p.Evict != nil {
			evict = p.Evict.Key
		}
		if evict != c.evict {
			t.Errorf("%s: evicts by %q, want %q", c.name, evict, c.evict)
		}
	}
	cordoned := newNode("n", "", ready(corev1.ConditionTrue))
	cordoned.Spec.Unschedulable = true
	if p := DecideTaints(cordoned, now); len(p.Want) != 1 || p.Want[0].Key != corev1.TaintNodeUnschedulable {
		t.Errorf("cordoned: %v", p.Want)
	}
}

func TestZones(t *testing.T) {
	t.Parallel()
	rates := Rates{Normal: 0.1, Secondary: 0.01, Unhealthy: 0.55, Large: 10}
	for _, c := range []struct {
		ready, all int
		want       float64
	}{
		{10, 10, 0.1}, {8, 10, 0.1}, {0, 10, 0.1}, {4, 10, 0}, {1, 3, 0.1}, {8, 20, 0.01},
	} {
		if got := rates.of(c.ready, c.all); got != c.want {
			t.Errorf("%d of %d ready: %v nodes a second, want %v", c.ready, c.all, got, c.want)
		}
	}
	z := newZones(rates)
	var nodes []*corev1.Node
	for i := range 10 {
		s := corev1.ConditionTrue
		if i < 2 {
			s = corev1.ConditionUnknown
		}
		nodes = append(nodes, newNode(fmt.Sprint(i), "a", ready(s)))
	}
	z.observe(nodes, nil)
	if ok, _ := z.allow(zoneOf(nodes[0]), now); !ok {
		t.Error("the first eviction is refused")
	}
	if ok, after := z.allow(zoneOf(nodes[0]), now.Add(time.Second)); ok || after <= 0 {
		t.Errorf("a second eviction a second later: %v, %v", ok, after)
	}
	if ok, _ := z.allow(zoneOf(nodes[0]), now.Add(10*time.Second)); !ok {
		t.Error("the second eviction is refused 10 s later")
	}
	for _, n := range nodes {
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
	}
	z.observe(nodes, nil)
	if ok, _ := z.allow(zoneOf(nodes[0]), now.Add(time.Hour)); ok {
		t.Error("evicts though no node anywhere is ready")
	}
}

// TestExcludedNodes: nodes that are labelled so say nothing of their zone, nor of the cluster.
func TestExcludedNodes(t *testing.T) {
	t.Parallel()
	z := newZones(Rates{Normal: 0.1, Unhealthy: 0.55, Large: 50})
	node := func(name, zone string, s corev1.ConditionStatus, excluded bool) *corev1.Node {
		n := newNode(name, zone, ready(s))
		if excluded {
			n.Labels["node.kubernetes.io/exclude-disruption"] = ""
		}
		return n
	}
	nodes := []*corev1.Node{node("well", "a", corev1.ConditionTrue, false), node("edge", "b", corev1.ConditionUnknown, true)}
	for i := range 4 {
		nodes = append(nodes, node(fmt.Sprint(i), "a", corev1.ConditionUnknown, true))
	}
	counts, _ := z.observe(nodes, nil)
	if a := counts[zoneOf(nodes[0])]; len(counts) != 1 || a != (count{1, 1}) {
		t.Errorf("counted %v", counts)
	}
	for _, n := range nodes[1:3] {
		if ok, _ := z.allow(zoneOf(n), now); !ok {
			t.Errorf("%s is not evicted from, since others are ill that do not count", n.Name)
		}
	}
}

func TestDecideLabels(t *testing.T) {
	t.Parallel()
	const os, arch = "beta.kubernetes.io/os", "beta.kubernetes.io/arch"
	for name, tt := range map[string]struct{ has, want map[string]string }{
		"none":         {nil, map[string]string{}},
		"missing":      {map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: "arm64"}, map[string]string{os: "linux", arch: "arm64"}},
		"other":        {map[string]string{corev1.LabelOSStable: "linux", os: "windows"}, map[string]string{os: "linux"}},
		"the same":     {map[string]string{corev1.LabelArchStable: "arm64", arch: "arm64"}, map[string]string{}},
		"only the old": {map[string]string{arch: "arm64"}, map[string]string{}},
	} {
		n := newNode("n", "z")
		n.Labels = tt.has
		if got := DecideLabels(n); !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
