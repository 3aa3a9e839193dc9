package layer2

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
	"howdah.dev/services/controllers/internal/servicelb"
)

func pool(t *testing.T, texts ...string) Pool {
	t.Helper()
	var ranges []netip.Prefix
	for _, s := range texts {
		ranges = append(ranges, netip.MustParsePrefix(s))
	}
	return NewPool(ranges)
}

func balanced(name, asked string, has ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerIP: asked}}
	for _, ip := range has {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
	}
	return s
}

func TestPick(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		service *corev1.Service
		taken   []string
		want    string
		err     string
	}{
		"the first":                       {balanced("s", ""), nil, "192.0.2.64", ""},
		"the first that is free":          {balanced("s", ""), []string{"192.0.2.64", "192.0.2.65"}, "192.0.2.66", ""},
		"what it has":                     {balanced("s", "", "192.0.2.67"), []string{"192.0.2.64"}, "192.0.2.67", ""},
		"what it has is another's":        {balanced("s", "", "192.0.2.67"), []string{"192.0.2.67"}, "192.0.2.64", ""},
		"what it has is of another range": {balanced("s", "", "192.0.2.1"), nil, "192.0.2.64", ""},
		"what it asks for":                {balanced("s", "192.0.2.66", "192.0.2.64"), nil, "192.0.2.66", ""},
		"what it asks for is another's": {balanced("s", "192.0.2.66"), []string{"192.0.2.66"}, "",
			"loadBalancerIP 192.0.2.66 is the service's other"},
		"what it asks for is elsewhere": {balanced("s", "192.0.2.1"), nil, "", "loadBalancerIP 192.0.2.1 is not in the range of load balancers [192.0.2.64/30 198.51.100.9/32]"},
		"the second range":              {balanced("s", ""), []string{"192.0.2.64", "192.0.2.65", "192.0.2.66", "192.0.2.67"}, "198.51.100.9", ""},
		"nothing is left": {balanced("s", ""), []string{"192.0.2.64", "192.0.2.65", "192.0.2.66", "192.0.2.67", "198.51.100.9"}, "",
			"no address is left in the range of load balancers [192.0.2.64/30 198.51.100.9/32]"},
	} {
		got, err := pool(t, "192.0.2.64/30", "198.51.100.9/32").pick(c.service, func(a netip.Addr) (string, bool) {
			for _, text := range c.taken {
				if a.String() == text {
					return "other", true
				}
			}
			return "", false
		})
		if c.err != "" && (err == nil || err.Error() != c.err) || c.err == "" && fmt.Sprint(got) != "["+c.want+"]" {
			t.Errorf("%s: %s, %v", what, got, err)
		}
	}
}

func TestPickFamilies(t *testing.T) {
	t.Parallel()
	families := func(s *corev1.Service, policy corev1.IPFamilyPolicy, families ...corev1.IPFamily) *corev1.Service {
		s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &policy, families
		return s
	}
	const single, prefer, require, v4, v6 = corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack,
		corev1.IPv4Protocol, corev1.IPv6Protocol
	both, only4 := []string{"192.0.2.64/30", "fd00:0:0:1::/126"}, []string{"192.0.2.64/30"}
	for what, c := range map[string]struct {
		ranges  []string
		service *corev1.Service
		taken   string
		want    string
		err     string
	}{
		"IPv4":                       {both, families(balanced("s", ""), single, v4), "", "[192.0.2.64]", ""},
		"IPv6, not the routers' own": {both, families(balanced("s", ""), single, v6), "", "[fd00:0:0:1::1]", ""},
		"both":                       {both, families(balanced("s", ""), require, v4, v6), "192.0.2.64", "[192.0.2.65 fd00:0:0:1::1]", ""},
		"both, the other first":      {both, families(balanced("s", ""), prefer, v6, v4), "fd00:0:0:1::1", "[fd00:0:0:1::2 192.0.2.64]", ""},
		"what it has":                {both, families(balanced("s", "", "192.0.2.66", "fd00:0:0:1::3"), require, v4, v6), "", "[192.0.2.66 fd00:0:0:1::3]", ""},
		"one that becomes two":       {both, families(balanced("s", "", "192.0.2.66"), require, v6, v4), "", "[fd00:0:0:1::1 192.0.2.66]", ""},
		"two that become one":        {both, families(balanced("s", "", "192.0.2.66", "fd00:0:0:1::3"), single, v6), "", "[fd00:0:0:1::3]", ""},
		"what it asks for":           {both, families(balanced("s", "fd00:0:0:1::2"), prefer, v4, v6), "", "[192.0.2.64 fd00:0:0:1::2]", ""},
		"preferred, and not there":   {only4, families(balanced("s", ""), prefer, v6, v4), "", "[192.0.2.64]", ""},
		"required, and not there":    {only4, families(balanced("s", ""), require, v4, v6), "", "", "load balancers have no IPv6 addresses here"},
		"the only one, not there":    {only4, families(balanced("s", ""), single, v6), "", "", "load balancers have no IPv6 addresses here"},
		"asked for, of no range":     {only4, families(balanced("s", "fd00::1"), prefer, v4, v6), "", "", "loadBalancerIP fd00::1 is not in the range of load balancers []"},
		"asked for, of no family":    {both, families(balanced("s", "fd00::1"), single, v4), "", "", "loadBalancerIP fd00::1 is none of the service's families [IPv4]"},
	} {
		got, err := pool(t, c.ranges...).pick(c.service, func(a netip.Addr) (string, bool) { return "other", a.String() == c.taken })
		if c.err != "" && (err == nil || err.Error() != c.err) || c.err == "" && (err != nil || fmt.Sprint(got) != c.want) {
			t.Errorf("%s: %s, %v", what, got, err)
		}
	}
}

func node(name string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
}

func slice(nodes ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s-1", Labels: map[string]string{discoveryv1.LabelServiceName: "s"}}}
	for _, n := range nodes {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{NodeName: new(n), Addresses: []string{"10.0.0.1"}})
	}
	return s
}

func TestAnnouncer(t *testing.T) {
	t.Parallel()
	s := balanced("s", "", "192.0.2.64")
	three := []*corev1.Node{node("n1", "True"), node("n2", "True"), node("n3", "True")}
	first := Announcer(s, three, nil)
	if first == "" {
		t.Fatal("nobody is chosen")
	}
	for _, n := range three {
		s.Annotations = map[string]string{object.LoadBalancerNodeAnnotation: n.Name}
		if got := Announcer(s, three, nil); got != n.Name {
			t.Errorf("%s hands over to %s for nothing", n.Name, got)
		}
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
		if got := Announcer(s, three, nil); got == n.Name || got == "" {
			t.Errorf("after %s comes %q", n.Name, got)
		}
		n.Status.Conditions[0].Status = corev1.ConditionTrue
	}
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	for what, c := range map[string]struct {
		endpoints *discoveryv1.EndpointSlice
		want      string
	}{"no endpoint": {slice(), ""}, "one on n2": {slice("n2"), "n2"}, "on a node that is not there": {slice("n9"), ""}} {
		if got := Announcer(s, three, []*discoveryv1.EndpointSlice{c.endpoints}); got != c.want {
			t.Errorf("policy Local, %s: %q, want %q", what, got, c.want)
		}
	}
	unready := slice("n2")
	unready.Endpoints[0].Conditions.Ready = new(false)
	if got := Announcer(s, three, []*discoveryv1.EndpointSlice{unready}); got != "" {
		t.Errorf("policy Local, an endpoint that is not ready: %q", got)
	}
	chosen := map[string]int{}
	for i := range 300 {
		chosen[Announcer(balanced(fmt.Sprint(i), "", "192.0.2.64"), three, nil)]++
	}
	for _, n := range three {
		if chosen[n.Name] < 50 {
			t.Errorf("services are spread so: %v", chosen)
		}
	}
}

// TestAddressesAndTheirNodes gives two services addresses and a node, and moves both to the other when the first one goes.
func TestAddressesAndTheirNodes(t *testing.T) {
	t.Parallel()
	c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) {
		unit := NewAnnouncer(env)
		unit.Queues = append(unit.Queues, servicelb.New(env, NewProvider(env, pool(t, "192.0.2.64/31")), Owns, nil).Queues...)
		return unit, nil
	})
	for _, name := range []string{"n1", "n2"} {
		controllertest.Create(c, object.Node, node(name, "True"))
	}
	controllertest.Create(c, object.Service, balanced("a", ""))
	controllertest.Create(c, object.Service, balanced("b", ""))
	is := func(n int, on func(node string) bool) func([]*corev1.Service) bool {
		return func(list []*corev1.Service) bool {
			addresses := map[string]bool{}
			for _, s := range list {
				if len(s.Status.LoadBalancer.Ingress) == 1 && s.Annotations[object.LoadBalancerNodeAnnotation] != "" && on(s.Annotations[object.LoadBalancerNodeAnnotation]) {
					addresses[s.Status.LoadBalancer.Ingress[0].IP] = true
				}
			}
			return len(addresses) == n
		}
	}
	list := controllertest.Await(c, object.Service, "two addresses", is(2, func(string) bool { return true }))
	old := list[0].Annotations[object.LoadBalancerNodeAnnotation]
	gone := node(old, "False")
	controllertest.UpdateStatus(c, object.Node, gone)
	controllertest.Await(c, object.Service, "both at the other node", is(2, func(n string) bool { return n != old }))

	controllertest.Create(c, object.Service, balanced("c", "")) // nothing is left
	controllertest.Delete(c, object.Service, "n", "a", metav1.DeleteOptions{})
	controllertest.Await(c, object.Service, "the address of a for c", func(list []*corev1.Service) bool {
		return len(list) == 2 && is(2, func(n string) bool { return n != old })(list)
	})
}
