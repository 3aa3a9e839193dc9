package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestSilentNode: a node whose agent is not heard of for longer than its lease lasts counts as lost, its pods get no traffic, and all that is taken back as soon as
// it is heard of again, with the containers that it had.
func TestSilentNode(t *testing.T) {
	c := setup(t)
	web(c)
	before := c.containers()
	pid, err := run(time.Minute, "", "docker", "exec", "howdah-node2-1", "pgrep", "-f", "howdah nodeagent")
	if err != nil {
		t.Fatal(err)
	}
	signal := func(name string) {
		if out, err := run(time.Minute, "", "docker", "exec", "howdah-node2-1", "kill", "-"+name, strings.Fields(pid)[0]); err != nil {
			t.Errorf("%v %s", err, out)
		}
	}
	signal("STOP")
	t.Cleanup(func() { signal("CONT") }) // before the namespace goes
	ready := func() string {
		return c.jsonpath("node/node2", `{.status.conditions[?(@.type=="Ready")].status}`) + " " +
			c.kubectl("get", "pods", "-l", "app=web", "--field-selector=spec.nodeName=node2", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`)
	}
	was := ready()
	if !strings.HasPrefix(was, "True True") {
		t.Fatalf("the node and its pods are ready: %s", was)
	}
	lost := strings.ReplaceAll(was, "True", "False")
	c.await(3*time.Minute, "the node to be lost with its pods", func() bool { return ready() == strings.Replace(lost, "False", "Unknown", 1) })
	signal("CONT")
	c.await(time.Minute, "the node to be back with its pods", func() bool { return ready() == was })
	if after := c.containers(); after != before {
		t.Errorf("running pods were touched:\n%s\nbefore:\n%s", after, before)
	}
}
