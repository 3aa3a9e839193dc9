package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// balancerRange begins the addresses that load balancers get.
func (c *cluster) balancerRange() string {
	c.t.Helper()
	address := c.nodeAddress("node1")
	return address[:strings.LastIndex(address, ".")+1]
}

// TestLoadBalancerHasAnAddress asks for a Service by an address of its own, from the host, from another container and from pods, moves it to the other node, and
// takes it away.
func TestLoadBalancerHasAnAddress(t *testing.T) {
	c := setup(t)
	manifest, err := os.ReadFile("../../examples/external-address.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.apply(string(manifest))
	c.client("client1", "node1")
	c.client("client2", "node2")
	c.kubectl("rollout", "status", "deploy/front", "--timeout=180s")
	address := ""
	c.await(2*time.Minute, "an address", func() bool {
		address = c.jsonpath("service/front", "{.status.loadBalancer.ingress[0].ip}")
		return address != ""
	})
	if !strings.HasPrefix(address, c.balancerRange()) {
		t.Fatalf("address %s is not on the nodes' network", address)
	}
	holder := func() string {
		return c.jsonpath("service/front", `{.metadata.annotations.howdah\.dev/load-balancer-node}`)
	}
	c.await(2*time.Minute, "a node", func() bool { return holder() != "" })
	answers := func() bool { _, err := fetch("http://" + address + "/"); return err == nil }
	c.await(2*time.Minute, "an answer on the host", answers)
	for range 20 {
		if _, err := fetch("http://" + address + "/"); err != nil {
			t.Fatalf("on the host: %v", err)
		}
	}
	for _, client := range []string{"client1", "client2"} {
		c.await(2*time.Minute, "an answer on "+client+"'s node", func() bool { // which hears of the address when it does
			out, err := c.inPod(client, "curl", "-s", "-m", "30", "-o", "/dev/null", "-w", "%{http_code}", "http://"+address)
			return err == nil && out == "200"
		})
	}
	if out, err := run(time.Minute, "", "docker", "exec", "howdah-gateway-1", "bash", "-c",
		fmt.Sprintf(`exec 3<>/dev/tcp/%s/80 && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && head -1 <&3`, address)); err != nil || !strings.Contains(out, "200") {
		t.Errorf("from another container: %q, %v", out, err)
	}
	c.await(2*time.Minute, "the event of the address", func() bool {
		events := c.kubectl("get", "events", "--field-selector=involvedObject.name=front,involvedObject.kind=Service", "-o", "jsonpath={.items[*].reason}")
		return strings.Contains(events, "EnsuredLoadBalancer")
	})

	// The node that answers is taken out of the balancers: the other one takes over, and whoever has asked before learns of it.
	first := holder()
	c.cluster("label", "node", first, "node.kubernetes.io/exclude-from-external-load-balancers=")
	t.Cleanup(func() { c.cluster("label", "node", first, "node.kubernetes.io/exclude-from-external-load-balancers-") })
	c.await(2*time.Minute, "the other node", func() bool { h := holder(); return h != "" && h != first })
	c.await(2*time.Minute, "an answer of the other node", answers)

	// A second one may ask for its address; the first one's is taken.
	c.apply(fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: same}, spec: {type: LoadBalancer, loadBalancerIP: %s, selector: {app: front}, ports: [{port: 80}]}}`, address))
	c.await(2*time.Minute, "the refusal of an address that is taken", func() bool {
		return strings.Contains(c.kubectl("get", "events", "--field-selector=involvedObject.name=same", "-o", "jsonpath={.items[*].message}"),
			"loadBalancerIP "+address+" is the service's "+c.namespace+"/front")
	})
	// One of another class is somebody else's.
	c.apply(`{apiVersion: v1, kind: Service, metadata: {name: foreign}, spec: {type: LoadBalancer, loadBalancerClass: example.com/other, selector: {app: front}, ports: [{port: 80}]}}`)

	c.kubectl("delete", "service", "front", "--timeout=180s")
	c.await(2*time.Minute, "the address for who asked for it", func() bool {
		return c.jsonpath("service/same", "{.status.loadBalancer.ingress[0].ip}") == address
	})
	if got := c.jsonpath("service/foreign", "{.status.loadBalancer.ingress}{.metadata.finalizers}"); got != "" {
		t.Errorf("a service of a foreign class got %s", got)
	}
	// Nothing is left behind it: port 80 leads to pods by "same" now, and with its end nowhere.
	c.kubectl("delete", "service", "same", "--timeout=180s")
	c.await(2*time.Minute, "nobody to answer", func() bool { return !answers() })
}
