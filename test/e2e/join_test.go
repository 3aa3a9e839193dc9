package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestJoin has a third node join by a bootstrap token: it becomes Ready, runs pods that the others reach, is reached by the API servers with the certificate that
// it was given, and is reset.
func TestJoin(t *testing.T) {
	c := setup(t)
	join := func(args ...string) string {
		t.Helper()
		out, err := run(6*time.Minute, "", "../../hack/join.sh", args...)
		if err != nil {
			t.Fatalf("hack/join.sh %v: %v\n%s", args, err, out)
		}
		return out
	}
	onNode := func(command ...string) (string, error) {
		return run(time.Minute, "", "docker", append([]string{"exec", "howdah-node3-1"}, command...)...)
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, err := run(time.Minute, "", "docker", "logs", "--tail", "100", "howdah-node3-1")
			t.Logf("node3 (err %v):\n%s", err, out)
		}
		_, _ = run(6*time.Minute, "", "../../hack/join.sh", "0")
	})
	if out := join(); !strings.Contains(out, "This machine is the node node3 of the cluster") {
		t.Errorf("it joins with the words:\n%s", out)
	}

	if out := join(); !strings.Contains(out, "This machine is the node node3 already") {
		t.Errorf("again with the words:\n%s", out)
	}
	settings, err := onNode("cat", "/var/lib/node/pki/nodeagent.env")
	for _, want := range []string{"HOWDAH_APISERVER=dns:///apiserver:7443\n", "HOWDAH_CLUSTER_DNS=10.96.0.10\n", "HOWDAH_NODE_NAME=node3\n", "HOWDAH_ROTATE_CERTIFICATES=true\n"} {
		if err != nil || !strings.Contains(settings, want) {
			t.Errorf("the settings lack %q (%v):\n%s", want, err, settings)
		}
	}
	if out, err := onNode("howdah", "certs", "check-expiration", "--dir", "/var/lib/node/pki"); err != nil || !strings.Contains(out, "howdah-ca") {
		t.Errorf("its certificate: %v\n%s", err, out)
	}
	if out, err := onNode("howdah", "reset", "-f", "--tls-dir", "/var/lib/node/pki"); err == nil || !strings.Contains(err.Error(), "stop the node agent first") {
		t.Errorf("a reset while the agent runs: %v\n%s", err, out)
	}

	// A pod there and one on another node: each finds the other by its name.
	for name, node := range map[string]string{"there": "node3", "here": "node1"} {
		c.apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %[1]s, labels: {app: %[1]s}}, spec: {nodeName: %[2]s, containers: [{name: c, image: "nginx:1.9.1"}]}}`, name, node))
		c.apply(fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %[1]s}, spec: {selector: {app: %[1]s}, ports: [{port: 80}]}}`, name))
	}
	c.client("client3", "node3")
	c.client("client1", "node1")
	c.kubectl("wait", "--for=condition=Ready", "pod/there", "pod/here", "--timeout=180s")
	for client, service := range map[string]string{"client3": "here", "client1": "there"} {
		c.await(time.Minute, client+" reaches "+service, func() bool {
			out, err := c.inPod(client, "curl", "-s", "-m", "5", "http://"+service)
			return err == nil && strings.Contains(out, "nginx")
		})
	}
	if out := c.kubectl("exec", "there", "--", "hostname"); strings.TrimSpace(out) != "there" {
		t.Errorf("exec says %q", out)
	}
	c.await(time.Minute, "the log of a pod of the node", func() bool {
		out, err := c.try("logs", "there")
		return err == nil && strings.Contains(out, "GET / HTTP/1.1")
	})
	if out, err := run(time.Minute, "", "kubectl", "get", "--raw", "/api/v1/nodes/node3/proxy/healthz"); err != nil || out != "ok" {
		t.Errorf("its endpoint through the API server: %q, %v", out, err)
	}

	c.kubectl("delete", "pod", "--all", "--grace-period=1")
	if out := join("0"); !strings.Contains(out, "removed /var/lib/node/pki/node.pem") {
		t.Errorf("it is reset with the words:\n%s", out)
	}
	if out, err := c.try("get", "node", "node3"); err == nil {
		t.Errorf("the node is still there: %s", out)
	}
}
