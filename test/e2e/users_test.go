package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUsersOfItsOwn runs the example of a pod whose root is nobody on its node, once by the default handler and once by that of a class.
func TestUsersOfItsOwn(t *testing.T) {
	c := setup(t)
	example, err := os.ReadFile(filepath.Join("..", "..", "examples", "own-users.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c.apply(string(example))
	c.apply("apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: own-users}\nhandler: runc")
	t.Cleanup(func() { _, _ = c.try("delete", "runtimeclass", "own-users", "--wait=false") })
	c.apply(strings.NewReplacer("name: own-users", "name: classed", "\n  hostUsers: false\n", "\n  hostUsers: false\n  runtimeClassName: own-users\n").Replace(string(example)))
	for _, pod := range []string{"own-users", "classed"} {
		c.kubectl("wait", "--for=condition=Ready", "pod/"+pod, "--timeout=180s")
		got, err := c.inPod(pod, "sh", "-c", "id -u; cat /proc/self/uid_map; touch /scratch/x; stat -c %u /scratch/x; stat -c %u /proc/1")
		fields := strings.Fields(got)
		if err != nil || len(fields) != 6 || fields[0] != "0" || fields[1] != "0" || fields[2] == "0" || fields[3] != "65536" || fields[4] != "0" || fields[5] != "0" {
			t.Errorf("%s: %q, %v", pod, got, err)
		}
	}
	node := c.jsonpath("pod/own-users", "{.spec.nodeName}")
	if got := c.jsonpath("node/"+node, `{.status.runtimeHandlers[?(@.name=="")].features.userNamespaces}`); got != "true" {
		t.Errorf("what the node says of its default handler: %q", got)
	}
}
