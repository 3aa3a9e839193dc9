package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

// addresses reads a list of addresses, which has to have one of each family; IPv4 comes first.
func addresses(t *testing.T, what, list string) (v4, v6 string) {
	t.Helper()
	for _, text := range strings.Fields(list) {
		a, err := netip.ParseAddr(text)
		switch {
		case err != nil:
			t.Fatalf("%s: %v", what, err)
		case a.Is4() && v4 == "":
			v4 = text
		case a.Is6() && v6 == "":
			v6 = text
		default:
			t.Fatalf("%s has more than one address of a family: %s", what, list)
		}
	}
	if v4 == "" || v6 == "" {
		t.Fatalf("%s has not an address of each family: %q", what, list)
	}
	return v4, v6
}

// TestDualStack follows the addresses of both families, of pods, Services, names, node ports, load balancers and policies, where the cluster has them.
func TestDualStack(t *testing.T) {
	c := setup(t)
	node := func(name string) string {
		return c.cluster("get", "node", name, "-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`)
	}
	if len(strings.Fields(node("node1"))) < 2 {
		t.Skip("the nodes have addresses of one family: make up IPV6=1")
	}
	manifest, err := os.ReadFile("../../examples/dual-stack.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.apply(string(manifest))
	clients := []string{"client1", "client2"}
	c.client("client1", "node1")
	c.client("client2", "node2")
	c.kubectl("rollout", "status", "deploy/both", "--timeout=180s")
	pods := c.pods("app=both")
	ask := func(client, host string) (string, error) {
		return c.inPod(client, "curl", "-g", "-s", "-m", "30", "http://"+net.JoinHostPort(host, "80")+"/hostname")
	}
	many := func(client, host string) func() (string, error) {
		return func() (string, error) {
			return c.inPod(client, "sh", "-c", fmt.Sprintf("for i in $(seq 20); do curl -g -s -m 30 'http://%s/hostname'; done", net.JoinHostPort(host, "80")))
		}
	}

	t.Run("pods reach each other over both, and know their addresses", func(t *testing.T) {
		for _, pod := range pods {
			v4, v6 := addresses(t, "pod "+pod, c.jsonpath("pod/"+pod, "{.status.podIPs[*].ip}"))
			addresses(t, "the node of pod "+pod, c.jsonpath("pod/"+pod, "{.status.hostIPs[*].ip}"))
			for _, client := range clients {
				for _, host := range []string{v4, v6} {
					if out, err := ask(client, host); err != nil || strings.TrimSpace(out) != pod {
						t.Errorf("%s at %s, asked by %s: %q, %v", pod, host, client, out, err)
					}
				}
			}
		}
	})
	service4, service6 := addresses(t, "service both", c.jsonpath("service/both", "{.spec.clusterIPs[*]}"))
	only6 := c.jsonpath("service/only6", "{.spec.clusterIPs[*]}")
	if a, err := netip.ParseAddr(only6); err != nil || !a.Is6() {
		t.Fatalf("service only6 has %q", only6)
	}
	t.Run("services", func(t *testing.T) {
		for _, client := range clients {
			for _, host := range []string{service4, service6, only6, "both", "only6"} {
				c.await(2*time.Minute, client+" to reach "+host, func() bool { _, err := ask(client, host); return err == nil })
				evenly(t, pods, 40, many(client, host))
			}
		}
	})
	t.Run("names", func(t *testing.T) {
		for _, q := range []struct{ name, kind, want string }{
			{"both", "A", service4}, {"both", "AAAA", service6}, {"only6", "A", ""}, {"only6", "AAAA", only6},
		} {
			out, err := c.inPod("client1", "dig", "+short", q.name+"."+c.namespace+".svc.cluster.local", q.kind)
			if err != nil || strings.TrimSpace(out) != q.want {
				t.Errorf("%s of %s: %q, %v; want %q", q.kind, q.name, out, err, q.want)
			}
		}
	})
	t.Run("node ports from outside", func(t *testing.T) {
		port4, port6 := c.jsonpath("service/both", "{.spec.ports[0].nodePort}"), c.jsonpath("service/only6", "{.spec.ports[0].nodePort}")
		for _, name := range []string{"node1", "node2"} {
			v4, v6 := addresses(t, name, node(name))
			for _, host := range []string{net.JoinHostPort(v4, port4), net.JoinHostPort(v6, port4), net.JoinHostPort(v6, port6)} {
				c.await(2*time.Minute, name+" to answer at "+host, func() bool { _, err := fetch("http://" + host + "/hostname"); return err == nil })
				evenly(t, pods, 40, func() (string, error) { return fetch("http://" + host + "/hostname") })
			}
		}
	})
	t.Run("a load balancer's addresses", func(t *testing.T) {
		list := ""
		c.await(2*time.Minute, "the addresses", func() bool {
			list = c.jsonpath("service/both", "{.status.loadBalancer.ingress[*].ip}")
			return list != ""
		})
		v4, v6 := addresses(t, "the load balancer", list)
		for _, host := range []string{v4, v6} {
			url := "http://" + net.JoinHostPort(host, "80") + "/hostname"
			c.await(2*time.Minute, "an answer at "+host, func() bool { _, err := fetch(url); return err == nil })
			evenly(t, pods, 40, func() (string, error) { return fetch(url) })
		}
	})
	t.Run("a policy", func(t *testing.T) {
		c.apply(`
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: friends}
spec:
  podSelector: {matchLabels: {app: both}}
  ingress: [{from: [{podSelector: {matchLabels: {friend: "yes"}}}]}]
`)
		c.kubectl("label", "pod", "client2", "friend=yes")
		for _, pod := range pods {
			v4, v6 := addresses(t, "pod "+pod, c.jsonpath("pod/"+pod, "{.status.podIPs[*].ip}"))
			for _, host := range []string{v4, v6} {
				c.await(2*time.Minute, "silence towards who is no friend, at "+host, func() bool {
					_, err := c.inPod("client1", "curl", "-g", "-s", "-m", "2", "http://"+net.JoinHostPort(host, "80")+"/hostname")
					return err != nil && strings.Contains(err.Error(), "exit code 28") // no answer in time
				})
				c.await(2*time.Minute, "an answer to the friend, at "+host, func() bool {
					out, err := ask("client2", host)
					return err == nil && strings.TrimSpace(out) == pod
				})
			}
		}
	})
}
