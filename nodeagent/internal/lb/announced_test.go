package lb

import (
	"context"
	"maps"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent/internal/announce"
	"howdah.dev/nodeagent/internal/route"
)

// TestLoadBalancerOnTheNodesNetwork dials an address that is on the wire's own network, and that no machine has: the node says that it is there, and balances.
func TestLoadBalancerOnTheNodesNetwork(t *testing.T) {
	onEachHook(t, testLoadBalancerOnTheNodesNetwork)
}

func testLoadBalancerOnTheNodesNetwork(t *testing.T, c *cluster) {
	ranges := []netip.Prefix{netip.MustParsePrefix(c.at("192.0.2.64/26"))}
	svc := service("lb", c.at("10.96.0.10"), tcp(80))
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	svc.Annotations = map[string]string{object.LoadBalancerNodeAnnotation: testNode}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: c.at("192.0.2.64")}}
	startCluster(t, c, svc, c.spread("lb"))
	c.node1.Do(func() error { return route.Reconcile(route.Desired(testNode, nil, route.Ranges{Balancers: ranges})) })

	if _, err := c.outside.Dial("tcp", c.at("192.0.2.64:80"), 500*time.Millisecond); err == nil {
		t.Fatal("the address answers before anybody says where it is")
	}
	a, err := announce.New(announce.Config{Node: testNode, Interface: "eth0", Ranges: ranges, Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.node1.Try(func() error { return a.Run(ctx) })
	}()
	t.Cleanup(func() { cancel(); <-done })
	a.Update(svc)
	if got, want := answers(t, c.outside, "tcp", c.at("192.0.2.64:80"), 20), map[string]int{"local": 10, "remote": 10}; !maps.Equal(got, want) {
		t.Errorf("answers %v, want %v", got, want)
	}
	began := time.Now()
	if _, err := c.outside.Dial("tcp", c.at("192.0.2.64:81"), 10*time.Second); err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("a port that is not the service's: %v after %s", err, time.Since(began))
	}
	if got, err := c.outside.Ask("tcp", c.at("192.0.2.64:80"), patience); err != nil {
		t.Errorf("after that: %q, %v", got, err)
	}
}
