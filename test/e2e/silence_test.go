package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestSilence has one node's agent fall silent and the other's container runtime, at the same time: much of it is waiting.
func TestSilence(t *testing.T) {
	t.Run("agent", func(t *testing.T) {
		t.Parallel()
		testSilentAgent(t, "node2")
	})
	t.Run("runtime", func(t *testing.T) {
		t.Parallel()
		testSilentRuntime(t, "node1")
	})
}

// testSilentAgent: a node whose agent is not heard of for longer than its lease lasts counts as lost, its pods get no traffic, and all that is taken back as soon as
// it is heard of again, with the containers that it had.
func testSilentAgent(t *testing.T, node string) {
	c := setup(t)
	c.apply(`{apiVersion: v1, kind: Pod, metadata: {name: unheard, labels: {app: web}}, spec: {nodeName: ` + node + `, terminationGracePeriodSeconds: 0, containers: [{name: c, image: busybox, imagePullPolicy: IfNotPresent,
  command: [sleep, "1000"]}]}}`)
	c.kubectl("wait", "--for=condition=Ready", "pod/unheard", "--timeout=180s")
	before := c.containers()
	thaw := c.freeze(node, "howdah nodeagent")
	ready := func() string {
		return c.jsonpath("node/"+node, `{.status.conditions[?(@.type=="Ready")].status}`) + " " + c.jsonpath("pod/unheard", `{.status.conditions[?(@.type=="Ready")].status}`)
	}
	c.await(3*time.Minute, "the node to be lost with its pod", func() bool { return ready() == "Unknown False" })
	thaw()
	c.await(time.Minute, "the node to be back with its pod", func() bool { return ready() == "True True" })
	if after := c.containers(); after != before {
		t.Errorf("running pods were touched:\n%s\nbefore:\n%s", after, before)
	}
}

// testSilentRuntime: a node whose container runtime does not answer says so, and runs on what it runs: also what is asked through the runtime whether it lives.
func testSilentRuntime(t *testing.T, node string) {
	c := setup(t)
	c.apply(`{apiVersion: v1, kind: Pod, metadata: {name: asked, labels: {app: web}}, spec: {nodeName: ` + node + `, terminationGracePeriodSeconds: 0, containers: [{name: c, image: busybox, imagePullPolicy: IfNotPresent,
  command: [sleep, "1000"], livenessProbe: {exec: {command: ["true"]}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 2}}]}}`)
	c.kubectl("wait", "--for=condition=Ready", "pod/asked", "--timeout=180s")
	before := c.containers()
	thaw := c.freeze(node, "^containerd$")
	ready := func() string { return c.jsonpath("node/"+node, `{.status.conditions[?(@.type=="Ready")].status}`) }
	c.await(3*time.Minute, "the node to say that its runtime is away", func() bool { return ready() == "False" })
	thaw()
	c.await(time.Minute, "the node to be ready again", func() bool { return ready() == "True" })
	c.kubectl("wait", "--for=condition=Ready", "pod/asked", "--timeout=60s")
	// The probes that waited have been answered, and others after them.
	c.apply(`{apiVersion: v1, kind: Pod, metadata: {name: later}, spec: {nodeName: ` + node + `, terminationGracePeriodSeconds: 0, containers: [{name: c, image: busybox, imagePullPolicy: IfNotPresent, command: [sleep, "1000"]}]}}`)
	c.kubectl("wait", "--for=condition=Ready", "pod/later", "--timeout=180s")
	if after := c.containers(); after != before {
		t.Errorf("running pods were touched:\n%s\nbefore:\n%s", after, before)
	}
}

// freeze stops a process of a node, the first whose command line matches, until it is thawed or the test ends.
func (c *cluster) freeze(node, process string) (thaw func()) {
	c.t.Helper()
	pid, err := run(time.Minute, "", "docker", "exec", "howdah-"+node+"-1", "pgrep", "-o", "-f", process)
	if err != nil {
		c.t.Fatalf("%s on %s: %v", process, node, err)
	}
	signal := func(name string) {
		if out, err := run(time.Minute, "", "docker", "exec", "howdah-"+node+"-1", "kill", "-"+name, strings.TrimSpace(pid)); err != nil {
			c.t.Errorf("%v %s", err, out)
		}
	}
	signal("STOP")
	thaw = func() { signal("CONT") }
	c.t.Cleanup(thaw) // before the namespace goes
	return thaw
}
