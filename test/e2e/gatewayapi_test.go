package e2e

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// TestGatewayRoutesTwoHosts asks two hosts by a Gateway from outside: by the published port, by the address in the status, and by a port of its own there.
func TestGatewayRoutesTwoHosts(t *testing.T) {
	c := setup(t)
	plain, secure := os.Getenv(ingressHTTPVariable), os.Getenv(ingressHTTPSVariable)
	if plain == "" || secure == "" {
		t.Fatalf("%s and %s are not set: run `make e2e`", ingressHTTPVariable, ingressHTTPSVariable)
	}
	manifest, err := os.ReadFile("../../examples/gateway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.apply(string(manifest))
	c.kubectl("rollout", "status", "deploy/tea", "--timeout=180s")
	c.kubectl("rollout", "status", "deploy/coffee", "--timeout=180s")
	c.kubectl("wait", "gateway/shops", "--for=condition=Programmed", "--timeout=120s")
	address := c.jsonpath("gateway/shops", "{.status.addresses[0].value}")
	c.kubectl("patch", "gateway", "shops", "--type=json", "-p", `[{"op": "add", "path": "/spec/listeners/-", "value": {"name": "more", "port": 8088, "protocol": "HTTP", "hostname": "more.example.net"}}]`)
	for name, v := range map[string]visitor{
		"by the published port": visit(t, plain, secure, nil),
		"by the address":        visit(t, net.JoinHostPort(address, "80"), net.JoinHostPort(address, "443"), nil),
	} {
		c.await(2*time.Minute, "tea "+name, func() bool {
			code, body, _ := v.get("http://tea.example.net/")
			return code == http.StatusOK && body == "tea"
		})
		c.await(2*time.Minute, "coffee "+name, func() bool {
			code, body, response := v.get("http://coffee.example.net/menu")
			return code == http.StatusOK && body == "coffee" && response.Header.Get("X-Shop") == "coffee"
		})
		code, _, response := v.get("http://coffee.example.net/old/x")
		if code != http.StatusMovedPermanently || response.Header.Get("Location") != "http://coffee.example.net/x" {
			t.Errorf("the redirection %s: %d %v", name, code, response)
		}
		if code, body, _ := v.get("http://water.example.net/"); code != http.StatusNotFound {
			t.Errorf("a host without a route, %s: %d %s", name, code, body)
		}
	}
	c.kubectl("patch", "httproute", "coffee", "--type=json", "-p", `[{"op": "add", "path": "/spec/parentRefs/-", "value": {"name": "shops", "sectionName": "more"}}, {"op": "add", "path": "/spec/hostnames/-", "value": "more.example.net"}]`)
	own := visit(t, net.JoinHostPort(address, "8088"), secure, nil)
	c.await(2*time.Minute, "coffee by a port of its own", func() bool {
		code, body, _ := own.get("http://more.example.net/menu")
		return code == http.StatusOK && body == "coffee"
	})
	if reasons := c.jsonpath("httproute/coffee", "{.status.parents[*].conditions[*].reason}"); strings.Trim(strings.NewReplacer("Accepted", "", "ResolvedRefs", "").Replace(reasons), " ") != "" {
		t.Errorf("the route's conditions: %s", reasons)
	}
	c.kubectl("delete", "gateway", "shops")
	c.await(2*time.Minute, "the end of the status", func() bool { return c.jsonpath("httproute/coffee", "{.status.parents}") == "[]" })
}
