package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestStubDomain puts the example's Corefile in the place of the cluster's own, asks for a name of its stub domain, sees that what is no Corefile changes
// nothing, and that the first one comes back when the ConfigMap is deleted.
func TestStubDomain(t *testing.T) {
	c := setup(t)
	c.client("client", "node2")
	own := "kubernetes.default.svc.cluster.local"
	resolve := func(name string) string {
		out, err := c.inPod("client", "dig", "+short", "+time=2", "+tries=1", name)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(out)
	}
	corefile := func() string {
		out, _ := run(time.Minute, "", "kubectl", "-n", "kube-system", "get", "configmap", "coredns", "-o", "jsonpath={.data.Corefile}")
		return out
	}
	c.await(2*time.Minute, "the Corefile to edit", func() bool { return strings.Contains(corefile(), "kubernetes cluster.local") })
	first := corefile()
	t.Cleanup(func() { c.cluster("-n", "kube-system", "delete", "configmap", "coredns") })

	c.cluster("apply", "-f", "../../examples/coredns.yaml")
	c.await(2*time.Minute, "a name of the stub domain", func() bool { return resolve("wiki.corp.example") == "192.0.2.80" })
	if got := resolve(own); got != "10.96.0.1" {
		t.Errorf("the cluster's own name is %q", got)
	}

	c.cluster("-n", "kube-system", "patch", "configmap", "coredns", "--type=merge", "-p", `{"data":{"Corefile":".:53 {\n    nosuchplugin\n}\n"}}`)
	c.await(2*time.Minute, "what is no Corefile to be told", func() bool {
		out, err := run(time.Minute, "", "sh", "-c", "docker logs howdah-dns-1 2>&1")
		return err == nil && strings.Contains(out, "is not followed") && strings.Contains(out, "nosuchplugin")
	})
	if got := resolve("wiki.corp.example"); got != "192.0.2.80" {
		t.Errorf("after a change that is none the stub domain's name is %q", got)
	}

	c.cluster("-n", "kube-system", "delete", "configmap", "coredns")
	c.await(2*time.Minute, "the first Corefile", func() bool { return corefile() == first })
	c.await(2*time.Minute, "the end of the stub domain", func() bool { return resolve("wiki.corp.example") != "192.0.2.80" && resolve(own) == "10.96.0.1" })
}
