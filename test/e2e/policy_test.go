package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestNetworkPolicy puts the policy of seed 002 before a database: the front end, and pods of a namespace that is labelled so, may ask it at one port,
// nobody else may, and it asks nobody; the node's probes are let in. It holds while it is there.
func TestNetworkPolicy(t *testing.T) {
	c := setup(t)
	guests := &cluster{t: t, namespace: c.namespace + "-guests"}
	c.cluster("create", "namespace", guests.namespace)
	t.Cleanup(func() { c.cluster("delete", "namespace", guests.namespace, "--wait=false") })
	c.serving("db", "db", "node1")
	c.serving("front", "frontend", "node2")
	c.serving("near", "frontend", "node1")
	c.serving("stranger", "other", "node2")
	guests.serving("guest", "other", "node2")
	db, front := c.jsonpath("pod/db", "{.status.podIP}"), c.jsonpath("pod/front", "{.status.podIP}")
	asks := func(from *cluster, pod, address string, port int) string {
		out, err := from.inPod(pod, "wget", "-q", "-T", "2", "-O", "-", fmt.Sprintf("http://%s:%d/hostname", address, port))
		switch {
		case err == nil:
			return strings.TrimSpace(out)
		case strings.Contains(err.Error(), "timed out"):
			return "silence"
		}
		return err.Error()
	}
	type question struct {
		from    *cluster
		pod     string
		address string
		port    int
	}
	holds := func(when string, answers map[question]string) {
		t.Helper()
		for q, want := range answers {
			got := ""
			// The nodes hear of a policy or a label when they hear of it; it need not be before kubectl's next word.
			for deadline := time.Now().Add(2 * time.Minute); got != want && time.Now().Before(deadline); {
				got = asks(q.from, q.pod, q.address, q.port)
			}
			if got != want {
				t.Errorf("%s, %s asks %s at %d: %q, want %q", when, q.pod, q.address, q.port, got, want)
			}
		}
	}
	open := map[question]string{
		{c, "front", db, 6379}: "db", {c, "front", db, 6380}: "db", {c, "near", db, 6379}: "db", {c, "stranger", db, 6379}: "db",
		{guests, "guest", db, 6379}: "db", {c, "db", front, 6379}: "front",
	}
	holds("before", open)
	c.apply(`
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: test-network-policy}
spec:
  podSelector: {matchLabels: {role: db}}
  policyTypes: [Ingress, Egress]
  ingress:
  - from:
    - ipBlock: {cidr: 172.17.0.0/16, except: [172.17.1.0/24]}
    - namespaceSelector: {matchLabels: {project: myproject}}
    - podSelector: {matchLabels: {role: frontend}}
    ports: [{protocol: TCP, port: 6379}]
  egress:
  - to: [{ipBlock: {cidr: 10.0.0.0/24}}]
    ports: [{protocol: TCP, port: 5978}]
`)
	holds("with the policy", map[question]string{
		{c, "front", db, 6379}: "db", {c, "front", db, 6380}: "silence", {c, "near", db, 6379}: "db", {c, "near", db, 6380}: "silence",
		{c, "stranger", db, 6379}: "silence", {guests, "guest", db, 6379}: "silence", {c, "db", front, 6379}: "silence",
		{c, "stranger", front, 6379}: "front",
	})
	c.cluster("label", "namespace", guests.namespace, "project=myproject")
	c.kubectl("label", "pod", "stranger", "role=frontend", "--overwrite")
	c.kubectl("label", "pod", "front", "role=other", "--overwrite")
	holds("with other labels", map[question]string{
		{guests, "guest", db, 6379}: "db", {guests, "guest", db, 6380}: "silence", {c, "stranger", db, 6379}: "db", {c, "front", db, 6379}: "silence",
	})
	if ready := c.jsonpath("pod/db", `{.status.conditions[?(@.type=="Ready")].status}`); ready != "True" {
		t.Errorf("the node may probe the database, which is ready: %s", ready)
	}
	c.kubectl("delete", "networkpolicy", "test-network-policy")
	holds("after", open)
}

// serving runs a pod that tells its name at two ports, one of which the node probes.
func (c *cluster) serving(name, role, node string) {
	c.t.Helper()
	c.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {role: %s}}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 0
  containers:
  - name: c
    image: busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "httpd -p 6380 -h /etc; exec httpd -f -p 6379 -h /etc"]
    readinessProbe: {httpGet: {path: /hostname, port: 6380}, periodSeconds: 1}
`, name, role, node))
	c.kubectl("wait", "--for=condition=Ready", "pod/"+name, "--timeout=180s")
}
