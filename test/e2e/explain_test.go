package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestExplain(t *testing.T) {
	c := setup(t)
	c.apply(`{apiVersion: v1, kind: Pod, metadata: {name: huge}, spec: {containers: [{name: c, image: "nginx:1.9.1", resources: {requests: {cpu: "1000"}}}]}}`)
	c.apply(`{apiVersion: v1, kind: Pod, metadata: {name: fits}, spec: {nodeSelector: {kubernetes.io/hostname: node2}, containers: [{name: c, image: "nginx:1.9.1"}]}}`)
	c.kubectl("wait", "--for=condition=Ready", "pod/fits", "--timeout=180s")
	c.await(2*time.Minute, "the FailedScheduling event", func() bool {
		return strings.Contains(c.kubectl("get", "events"), "0/2 nodes are available: 2 Insufficient cpu")
	})

	var pending, placed explanation
	c.explain("huge", &pending)
	if pending.Node != "" || !strings.HasPrefix(pending.Message, "0/2 nodes are available: 2 Insufficient cpu") || len(pending.Nodes) != 2 {
		t.Errorf("the pending pod: %+v", pending)
	}
	for _, n := range pending.Nodes {
		if n.Feasible || n.refusal() != "NodeResourcesFit" {
			t.Errorf("%s refuses by %q, want NodeResourcesFit", n.Node, n.refusal())
		}
	}
	c.explain("fits", &placed)
	if placed.Node != "node2" || placed.Nodes[0].Node != "node2" || !placed.Nodes[0].Feasible || len(placed.Nodes[0].Scores) == 0 {
		t.Errorf("the placed pod: %+v", placed)
	}
	if placed.Nodes[1].refusal() != "NodeAffinity" {
		t.Errorf("node1 refuses by %q, want NodeAffinity", placed.Nodes[1].refusal())
	}

	out, err := run(time.Minute, "", filepath.Join("..", "..", ".build", "bin", "howdah"), "explain", "pod", "huge", "-n", c.namespace)
	if err != nil {
		t.Fatal(err)
	}
	mustMatch(t, out, `node1 +refused +0 +NodeResourcesFit: Insufficient cpu`)
}

type explanation struct {
	Node, Message string
	Nodes         []verdict
}

type verdict struct {
	Node     string
	Feasible bool
	Filters  []struct {
		Filter string
		Passed bool
	}
	Scores []struct{ Name string }
}

// refusal is the first filter that did not pass.
func (v verdict) refusal() string {
	for _, f := range v.Filters {
		if !f.Passed {
			return f.Filter
		}
	}
	return ""
}

func (c *cluster) explain(pod string, into *explanation) {
	c.t.Helper()
	out := c.cluster("get", "--raw", "/howdah/v1/namespaces/"+c.namespace+"/pods/"+pod+"/explain")
	if err := json.Unmarshal([]byte(out), into); err != nil {
		c.t.Fatalf("%v in %s", err, out)
	}
}
