package e2e

import (
	"net/http"
	"os"
	"testing"
	"time"
)

// TestTrafficThatStaysOnItsNode asks for a service whose one pod is on node1, and whose policy is Local: at each node, from outside and from pods, and
// as a load balancer asks for its health.
func TestTrafficThatStaysOnItsNode(t *testing.T) {
	c := setup(t)
	manifest, err := os.ReadFile("../../examples/load-balancer.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.apply(string(manifest))
	c.client("client1", "node1")
	c.client("client2", "node2")
	c.kubectl("wait", "--for=condition=Ready", "pod/greeter", "--timeout=180s")
	port := c.jsonpath("service/greeter", "{.spec.ports[0].nodePort}")
	health := c.jsonpath("service/greeter", "{.spec.healthCheckNodePort}")
	address := map[string]string{"node1": c.nodeAddress("node1"), "node2": c.nodeAddress("node2")}
	// code is 0 where nobody answers.
	code := func(url string) int {
		response, err := outside.Get(url)
		if err != nil {
			return 0
		}
		response.Body.Close()
		return response.StatusCode
	}
	healthy := func(node string) int { return code("http://" + address[node] + ":" + health) }
	c.await(2*time.Minute, "the endpoint to be known", func() bool {
		return healthy("node1") == http.StatusOK && healthy("node2") == http.StatusServiceUnavailable
	})
	c.await(2*time.Minute, "node1 to balance", func() bool { return code("http://"+address["node1"]+":"+port) == http.StatusOK })
	for node, want := range map[string]int{"node1": http.StatusOK, "node2": 0} {
		if got := code("http://" + address[node] + ":" + port); got != want {
			t.Errorf("from outside at %s: %d, want %d", node, got, want)
		}
		if got := code("http://" + address[node] + ":10256/healthz"); got != http.StatusOK {
			t.Errorf("%s says of itself: %d", node, got)
		}
	}
	for _, tt := range []struct {
		client, node string
		answers      bool
	}{
		{"client1", "node1", true},
		{"client2", "node1", true},
		{"client1", "node2", false}, // node2 has no pod of it
		{"client2", "node2", true},  // a pod of the node is inside, and gets any endpoint
	} {
		out, err := c.inPod(tt.client, "curl", "-s", "-m", "30", "-o", "/dev/null", "-w", "%{http_code}", "http://"+address[tt.node]+":"+port)
		if answers := err == nil && out == "200"; answers != tt.answers {
			t.Errorf("from %s at %s: %q, %v; want an answer: %v", tt.client, tt.node, out, err, tt.answers)
		}
	}

	c.kubectl("delete", "pod", "greeter", "--wait=false")
	c.await(2*time.Minute, "node1 to have none", func() bool { return healthy("node1") == http.StatusServiceUnavailable })
	c.kubectl("delete", "service", "greeter")
	c.await(2*time.Minute, "nobody to listen any more", func() bool { return healthy("node1") == 0 && healthy("node2") == 0 })
}
