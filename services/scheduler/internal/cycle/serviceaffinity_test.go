package cycle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/scheduler/internal/filter"
	"howdah.dev/services/scheduler/internal/kin"
)

func TestServiceAffinity(t *testing.T) {
	t.Parallel()
	in := func(region, rack string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Labels["region"] = region
			if rack != "" {
				n.Labels["rack"] = rack
			}
		}
	}
	nodes := []*corev1.Node{node("a1", "4", "4Gi", in("r1", "k1")), node("b1", "4", "4Gi", in("r2", "k1")), node("b2", "4", "4Gi", in("r2", "k2")), node("b3", "4", "4Gi", in("r2", ""))}
	labelled := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web", key: value} }
	}
	elsewhere := func(p *corev1.Pod) { p.Namespace = "other" }
	const refused = "node(s) didn't match service affinity"
	for _, tt := range []struct {
		name string
		keys []string
		pod  *corev1.Pod
		pods []*corev1.Pod
		want string // the nodes that pass
	}{
		{"the first goes anywhere", []string{"region"}, pod("p", ""), nil, "a1 b1 b2 b3 "},
		{"the next one to its region", []string{"region"}, pod("p", ""), []*corev1.Pod{pod("1", "", onNode("b2"))}, "b1 b2 b3 "},
		{"to its region and rack", []string{"region", "rack"}, pod("p", ""), []*corev1.Pod{pod("1", "", onNode("b2"))}, "b2 "},
		{"a label that its node lacks asks for nothing", []string{"region", "rack"}, pod("p", ""), []*corev1.Pod{pod("1", "", onNode("b3"))}, "b1 b2 b3 "},
		{"what the pod selects goes first", []string{"region", "rack"}, pod("p", "", selecting("rack", "k1")), []*corev1.Pod{pod("1", "", onNode("b2"))}, "b1 "},
		{"and is enough", []string{"region"}, pod("p", "", selecting("region", "r1")), []*corev1.Pod{pod("1", "", onNode("b2"))}, "a1 "},
		{"only pods with all of its labels count", []string{"region"}, pod("p", "", labelled("v", "1")), []*corev1.Pod{pod("1", "", onNode("b2"))}, "a1 b1 b2 b3 "},
		{"those with more do", []string{"region"}, pod("p", ""), []*corev1.Pod{pod("1", "", onNode("b2"), labelled("v", "1"))}, "b1 b2 b3 "},
		{"others' namespaces do not", []string{"region"}, pod("p", ""), []*corev1.Pod{pod("1", "", onNode("b2"), elsewhere)}, "a1 b1 b2 b3 "},
		{"pods of no Service go anywhere", []string{"region"}, pod("p", "", func(p *corev1.Pod) { p.Labels["app"] = "db" }), []*corev1.Pod{pod("1", "", onNode("b2"), func(p *corev1.Pod) { p.Labels["app"] = "db" })}, "a1 b1 b2 b3 "},
		{"without labels", nil, pod("p", ""), []*corev1.Pod{pod("1", "", onNode("b2"))}, "a1 b1 b2 b3 "},
	} {
		s := snapshot(nodes, tt.pods...)
		s.Kin.SetService(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}})
		profile, got := Profile{Filters: []filter.Filter{filter.ServiceAffinity(tt.keys)}}, ""
		for _, n := range profile.Explain(tt.pod, s).Nodes {
			switch {
			case len(n.Filters) == 0:
				got += n.Node + " "
			case len(n.Filters[0].Reasons) == 0:
				got += n.Node + " "
			case n.Filters[0].Reasons[0] != refused:
				t.Errorf("%s: %v", tt.name, n.Filters)
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}

	// One decision after the other: all of a group go where the first went.
	s := snapshot(nodes)
	s.Kin = kin.View{}
	s.Kin.SetService(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}})
	placements, _ := Profile{Filters: []filter.Filter{filter.ServiceAffinity([]string{"rack"})}}.Place([]*corev1.Pod{pod("1", ""), pod("2", ""), pod("3", "")}, s, func(n int) int { return n - 1 }, time.Now)
	for _, p := range placements {
		first := nodes[0]
		for _, n := range nodes {
			if n.Name == placements[0].Node {
				first = n
			}
		}
		for _, n := range nodes {
			if rack, ok := first.Labels["rack"]; ok && n.Name == p.Node && n.Labels["rack"] != rack {
				t.Errorf("%s went to rack %s, the first one to %s", p.Pod.Name, n.Labels["rack"], rack)
			}
		}
	}
}
