package lb

import (
	"context"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

func balanced(name string, healthPort int32) *corev1.Service {
	s := service(name, "10.96.0.10", tcp(80), udp(53))
	s.Spec.Type, s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal, healthPort
	return s
}

func TestHealthPortCountsReadyEndpointsOfThisNode(t *testing.T) {
	elsewhere := endpointSlice("web", 8080, "10.77.2.2")
	elsewhere.Endpoints[0].NodeName = new("node2")
	leaving := endpointSlice("web", 8080, "10.77.1.5")
	leaving.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
	everywhere := balanced("web", 32000)
	everywhere.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	ofAnother := balanced("web", 32000)
	ofAnother.Labels = map[string]string{labelProxyName: "somebody"}
	two := endpointSlice("web", 8080, "10.77.1.2", "10.77.1.3")
	for _, tt := range []struct {
		name   string
		svc    *corev1.Service
		slices []*discoveryv1.EndpointSlice
		want   HealthPort
	}{
		{"two here, one elsewhere", balanced("web", 32000), []*discoveryv1.EndpointSlice{two, elsewhere}, HealthPort{32000, 2}},
		{"one in two slices", balanced("web", 32000), []*discoveryv1.EndpointSlice{two, endpointSlice("web", 9090, "10.77.1.2")}, HealthPort{32000, 2}},
		{"pods of two families", balanced("web", 32000), []*discoveryv1.EndpointSlice{two, endpointSlice("web", 8080, "fd77::2", "fd77::3")}, HealthPort{32000, 2}},
		{"one that terminates", balanced("web", 32000), []*discoveryv1.EndpointSlice{leaving}, HealthPort{32000, 0}},
		{"none", balanced("web", 32000), nil, HealthPort{32000, 0}},
		{"traffic goes everywhere", everywhere, []*discoveryv1.EndpointSlice{two}, HealthPort{}},
		{"balanced by somebody else", ofAnother, []*discoveryv1.EndpointSlice{two}, HealthPort{}},
		{"no load balancer", service("web", "10.96.0.10", tcp(80)), []*discoveryv1.EndpointSlice{two}, HealthPort{}},
	} {
		if got := healthPort(tt.svc, tt.slices, Node{Name: testNode}); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// Load balancers hear of a change when clients meet it, and not while the maps could not be written.
func TestHealthPortsFollowTheMaps(t *testing.T) {
	m := memoryMaps()
	fail := 0
	m.Frontends = switched{m.Frontends, &fail}
	var told []map[types.NamespacedName]HealthPort
	s := memorySyncer(t, Config{HealthPorts: func(ports map[types.NamespacedName]HealthPort) { told = append(told, ports) }}, m)
	sync := func(wantErr bool) {
		t.Helper()
		if err := s.sync(context.Background(), false); (err != nil) != wantErr {
			t.Fatalf("sync: %v", err)
		}
	}
	name := types.NamespacedName{Namespace: "default", Name: "web"}
	s.Update(context.Background(), balanced("web", 32000))
	s.Update(context.Background(), endpointSlice("web", 8080, "10.77.1.2"))
	sync(false)
	s.Update(context.Background(), service("other", "10.96.0.11", tcp(80)))
	sync(false) // nothing to tell
	fail = 1
	s.Update(context.Background(), endpointSlice("web", 8080, "10.77.1.3", "10.77.1.4"))
	sync(true)
	sync(false)
	s.Delete(context.Background(), balanced("web", 32000))
	sync(false)
	want := []map[types.NamespacedName]HealthPort{{name: {32000, 1}}, {name: {32000, 2}}, {}}
	if len(told) != len(want) {
		t.Fatalf("told %v, want %v", told, want)
	}
	for i := range want {
		if !maps.Equal(told[i], want[i]) {
			t.Errorf("told %v, want %v", told, want)
		}
	}
}

func TestHealth(t *testing.T) {
	now := time.Unix(1000, 0)
	m := memoryMaps()
	fail := 0
	m.Frontends = switched{m.Frontends, &fail}
	s := memorySyncer(t, Config{Now: func() time.Time { return now }}, m)
	expect := func(when string, want Health) {
		t.Helper()
		if got := s.Health(); got != want {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	sync := func() { _ = s.sync(context.Background(), false) }

	expect("nothing is attached", Health{})
	close(s.ready)
	s.Update(context.Background(), service("web", "10.96.0.10", tcp(80)))
	expect("a change has come", Health{Healthy: true})
	sync()
	expect("it is written", Health{Healthy: true, Written: now})

	written := now
	s.Update(context.Background(), service("other", "10.96.0.11", tcp(80)))
	for range 3 {
		fail = 1
		now = now.Add(late / 3)
		sync()
	}
	expect("a change could not be written for long", Health{Written: written})
	s.Update(context.Background(), service("third", "10.96.0.12", tcp(80)))
	expect("newer changes make it no better", Health{Written: written})
	sync()
	expect("all is written", Health{Healthy: true, Written: now})

	written = now
	s.Update(context.Background(), service("fourth", "10.96.0.13", tcp(80)))
	now = now.Add(late)
	expect("nobody takes a change up", Health{Written: written})
}
