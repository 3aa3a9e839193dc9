package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestStaticPod puts a manifest into a node's folder, and takes it out again. Its mirror can be looked at and into, and deleted: the
// containers run on.
func TestStaticPod(t *testing.T) {
	c := setup(t)
	example, err := os.ReadFile("../../examples/static-pod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := "/etc/kubernetes/manifests/" + c.namespace + ".yaml"
	onNode := func(stdin, script string) {
		t.Helper()
		if out, err := run(time.Minute, stdin, "docker", "exec", "-i", "howdah-node1-1", "sh", "-c", script); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	t.Cleanup(func() {
		_, _ = run(time.Minute, "", "docker", "exec", "howdah-node1-1", "rm", "-f", file)
	})
	manifest := strings.Replace(string(example), "  name: clock\n", "  name: clock\n  namespace: "+c.namespace+"\n", 1)
	onNode(manifest, "cat >"+file)
	const pod = "pod/clock-node1"
	c.await(2*time.Minute, "the mirror", func() bool { _, err := c.try("get", pod); return err == nil })
	c.kubectl("wait", "--for=condition=Ready", pod, "--timeout=180s")
	if owner := c.jsonpath(pod, "{.metadata.ownerReferences[0].kind}/{.metadata.ownerReferences[0].name}"); owner != "Node/node1" {
		t.Errorf("it belongs to %s", owner)
	}
	if source := c.jsonpath(pod, `{.metadata.annotations.kubernetes\.io/config\.source}`); source != "file" {
		t.Errorf("source %q", source)
	}
	if out := c.kubectl("exec", "clock-node1", "--", "hostname"); strings.TrimSpace(out) != "clock-node1" {
		t.Errorf("exec: %q", out)
	}
	if out := c.kubectl("logs", "clock-node1"); !strings.Contains(out, "20") {
		t.Errorf("logs: %q", out)
	}
	const first = "{.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}"
	before, uid := c.jsonpath(pod, first), c.jsonpath(pod, "{.metadata.uid}")
	c.kubectl("delete", pod, "--wait=false")
	c.await(2*time.Minute, "another mirror", func() bool {
		now, err := c.try("get", pod, "-o", "jsonpath={.metadata.uid} {.status.phase}")
		return err == nil && !strings.HasPrefix(now, uid) && strings.HasSuffix(now, " Running")
	})
	if after := c.jsonpath(pod, first); after != before {
		t.Errorf("the container is another: %s, was %s", after, before)
	}
	onNode("", "rm "+file)
	c.await(2*time.Minute, "the mirror's end", func() bool { _, err := c.try("get", pod); return err != nil })
	// A node may stand for pods of its own in the API, and make no others.
	onNode("{apiVersion: v1, kind: Pod, metadata: {name: thief, namespace: "+c.namespace+"}, spec: {containers: [{name: c, image: busybox, volumeMounts: [{name: s, mountPath: /s}]}], "+
		"volumes: [{name: s, secret: {secretName: s}}]}}", "cat >"+file)
	c.await(2*time.Minute, "the refusal of a manifest with a secret", func() bool {
		out, err := c.try("get", "events", "-n", "default", "--field-selector=reason=InvalidManifest", "-o", "jsonpath={.items[*].message}")
		return err == nil && strings.Contains(out, fmt.Sprintf("manifest %s: static pods may not reference secrets", file))
	})
}
