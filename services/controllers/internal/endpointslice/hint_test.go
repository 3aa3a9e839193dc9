package endpointslice

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/services/controllers/internal/pack"
)

// endpointIn is an endpoint of a node in a zone ("a1", zone a), not ready where it is named with a dash.
func endpointIn(i int, node string) discoveryv1.Endpoint {
	node, down := strings.CutPrefix(node, "-")
	e := discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.0.0.%03d", i)}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(!down)}}
	if node != "" {
		e.NodeName, e.Zone = &node, ptr.To(node[:1])
	}
	return e
}

func zoneNode(zone, cpu string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelTopologyZone: zone}}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
}

func TestHints(t *testing.T) {
	t.Parallel()
	even := []*corev1.Node{zoneNode("a", "4"), zoneNode("b", "4"), zoneNode("c", "4")}
	for _, tt := range []struct {
		name         string
		distribution string
		mode         string
		nodes        []*corev1.Node
		endpoints    string
		want         string // of each endpoint: zones, and nodes behind a slash
		event        string
	}{
		{"nothing asked for", "", "", even, "a1 b1", "- -", ""},
		{"close", "PreferClose", "", even, "a1 b1 -c1", "a b -", ""},
		{"the same zone", "PreferSameZone", "", nil, "a1", "a", ""},
		{"the same node", "PreferSameNode", "", nil, "a1 b2", "a/a1 b/b2", ""},
		{"one that is not known", "Else", "", nil, "a1", "-", ""},
		{"an even spread", "", "Auto", even, "a1 b1 c1", "a b c", "Topology Aware Hints has been enabled, addressType: IPv4"},
		{"one zone has too many", "", "auto", even, "a1 a2 a3 a4 b1 c1", "b c a a b c", "Topology Aware Hints has been enabled, addressType: IPv4"},
		{"too few endpoints", "", "Auto", even, "a1 b1", "- -", "Insufficient number of endpoints (2 endpoints, 3 zones), addressType: IPv4"},
		{"more important than the field", "PreferClose", "Auto", even, "a1 b1", "- -", "Insufficient number of endpoints (2 endpoints, 3 zones), addressType: IPv4"},
		{"one zone", "", "Auto", even[:1], "a1 a2", "- -", "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes, addressType: IPv4"},
		{"a node without a zone", "", "Auto", append([]*corev1.Node{zoneNode("", "4")}, even...), "a1 b1 c1", "- - -",
			"Insufficient Node information: allocatable CPU or zone not specified on one or more nodes, addressType: IPv4"},
		{"too uneven to be shared", "", "Auto", []*corev1.Node{zoneNode("a", "10"), zoneNode("b", "1"), zoneNode("c", "1")}, "a1 b1 c1", "- - -",
			"Unable to allocate minimum required endpoints to each zone without exceeding overload threshold (3 endpoints, 3 zones), addressType: IPv4"},
	} {
		s := &corev1.Service{}
		if tt.distribution != "" {
			s.Spec.TrafficDistribution = &tt.distribution
		}
		if tt.mode != "" {
			s.Annotations = map[string]string{corev1.AnnotationTopologyMode: tt.mode}
		}
		g := &pack.Group{Family: discoveryv1.AddressTypeIPv4}
		for i, node := range strings.Fields(tt.endpoints) {
			g.Endpoints = append(g.Endpoints, endpointIn(i, node))
		}
		events := hint(s, map[string]*pack.Group{"g": g}, Observed{Nodes: func() []*corev1.Node { return tt.nodes }})
		var got []string
		for _, e := range g.Endpoints {
			text := "-"
			if e.Hints != nil {
				text = ""
				for _, z := range e.Hints.ForZones {
					text += z.Name
				}
				for _, n := range e.Hints.ForNodes {
					text += "/" + n.Name
				}
			}
			got = append(got, text)
		}
		told := ""
		for _, e := range events {
			told += e.Message
		}
		if strings.Join(got, " ") != tt.want || told != tt.event {
			t.Errorf("%s: %s, %q; want %s, %q", tt.name, got, told, tt.want, tt.event)
		}
	}
}
