package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/kit/pki"
)

// Where the ingress container's ports are published; make test sets them.
const (
	ingressHTTPVariable  = "HOWDAH_INGRESS_HTTP"
	ingressHTTPSVariable = "HOWDAH_INGRESS_HTTPS"
)

// visitor asks for hosts by way of the ingress, as a browser would whose name server knew them. It follows no redirects.
type visitor struct {
	t      *testing.T
	client *http.Client
}

// visit connects to plain for HTTP and to secure for HTTPS, whatever the host.
func visit(t *testing.T, plain, secure string, roots *x509.CertPool) visitor {
	t.Helper()
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			to := plain
			if _, port, _ := net.SplitHostPort(address); port == "443" {
				to = secure
			}
			var d net.Dialer
			return d.DialContext(ctx, network, to)
		},
	}
	return visitor{t, &http.Client{Transport: transport, Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// get returns the code, the text and the response; 0 where there is none.
func (v visitor) get(address string) (int, string, *http.Response) {
	response, err := v.client.Get(address)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error(), nil
	}
	return response.StatusCode, strings.TrimSpace(string(body)), response
}

// TestIngressRoutesTwoHosts asks two hosts from outside, by the published ports and by the address in the status, over HTTP and over TLS by name, and takes
// the Ingress to another class at last.
func TestIngressRoutesTwoHosts(t *testing.T) {
	c := setup(t)
	plain, secure := os.Getenv(ingressHTTPVariable), os.Getenv(ingressHTTPSVariable)
	if plain == "" || secure == "" {
		t.Fatalf("%s and %s are not set: run `make e2e`", ingressHTTPVariable, ingressHTTPSVariable)
	}
	manifest, err := os.ReadFile("../../examples/ingress.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.apply(string(manifest))
	c.kubectl("rollout", "status", "deploy/tea", "--timeout=180s")
	c.kubectl("rollout", "status", "deploy/coffee", "--timeout=180s")
	address := ""
	c.await(2*time.Minute, "an address in the status", func() bool {
		address = c.jsonpath("ingress/shops", "{.status.loadBalancer.ingress[0].ip}")
		return address != ""
	})
	for name, v := range map[string]visitor{
		"by the published port": visit(t, plain, secure, nil),
		"by the address":        visit(t, net.JoinHostPort(address, "80"), net.JoinHostPort(address, "443"), nil),
	} {
		for at, want := range map[string]string{"tea.example.com/": "tea", "coffee.example.com/": "coffee", "tea.example.com/beans/": "coffee"} {
			c.await(2*time.Minute, want+" at "+at+" "+name, func() bool { code, body, _ := v.get("http://" + at); return code == http.StatusOK && body == want })
		}
		if code, body, _ := v.get("http://water.example.com/"); code != http.StatusNotFound {
			t.Errorf("a host without a rule, %s: %d %s", name, code, body)
		}
	}
	c.secureTea(plain, secure)
	c.missingService(plain, secure)
	c.ingressTrace()

	// Of another class it is somebody else's: nothing is routed, and the address goes.
	v := visit(t, plain, secure, nil)
	c.kubectl("patch", "ingress", "shops", "--type=merge", "-p", `{"spec":{"ingressClassName":"other"}}`)
	c.await(2*time.Minute, "the end of the address", func() bool { return c.jsonpath("ingress/shops", "{.status.loadBalancer.ingress}") == "" })
	c.await(2*time.Minute, "the end of the routes", func() bool { code, _, _ := v.get("http://coffee.example.com/"); return code == http.StatusNotFound })
}

// secureTea gives one of the hosts a certificate.
func (c *cluster) secureTea(plain, secure string) {
	t := c.t
	authority, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{CommonName: "tea", Hosts: []string{"tea.example.com"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	crt, key := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	for path, data := range map[string][]byte{crt: pair.Certificate, key: pair.Key} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.kubectl("create", "secret", "tls", "tea", "--cert="+crt, "--key="+key)
	c.kubectl("patch", "ingress", "shops", "--type=merge", "-p", `{"spec":{"tls":[{"hosts":["tea.example.com"],"secretName":"tea"}]}}`)
	v := visit(t, plain, secure, authority.Pool())
	c.await(2*time.Minute, "tea over HTTPS", func() bool {
		code, body, response := v.get("https://tea.example.com/")
		return code == http.StatusOK && body == "tea" && response.ProtoMajor == 2
	})
	if code, body, _ := v.get("https://coffee.example.com/"); code != 0 || !strings.Contains(body, "certificate") {
		t.Errorf("a host without a certificate of its own: %d %s", code, body)
	}
	_, port, _ := net.SplitHostPort(secure)
	for host, want := range map[string]string{"tea.example.com": "https://tea.example.com/x", "tea.example.com:8080": "https://tea.example.com:" + port + "/x"} {
		code, _, response := v.get("http://" + host + "/x")
		if code != http.StatusPermanentRedirect || response.Header.Get("Location") != want {
			t.Errorf("%s over HTTP: %d, %v", host, code, response)
		}
	}
	if code, body, _ := v.get("http://coffee.example.com/"); code != http.StatusOK || body != "coffee" {
		t.Errorf("the host without TLS: %d %s", code, body)
	}
}

// missingService routes to nothing, which an event tells.
func (c *cluster) missingService(plain, secure string) {
	c.apply(`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: lost}, spec: {defaultBackend: {service: {name: nowhere, port: {number: 80}}}, rules: [{host: lost.example.com}]}}`)
	v := visit(c.t, plain, secure, nil)
	c.await(2*time.Minute, "503 without a Service", func() bool {
		code, _, _ := v.get("http://lost.example.com/")
		return code == http.StatusServiceUnavailable
	})
	c.await(2*time.Minute, "the event", func() bool {
		return strings.Contains(c.kubectl("get", "events", "--field-selector=involvedObject.name=lost", "-o", "jsonpath={.items[*].message}"), `the Service "nowhere" does not exist`)
	})
	if class := c.jsonpath("ingress/lost", "{.spec.ingressClassName}"); class != "howdah" {
		c.t.Errorf("an Ingress without a class got %q", class)
	}
	c.kubectl("delete", "ingress", "lost")
}

// ingressTrace looks for a request's span, which says which Ingress and endpoint it came to.
func (c *cluster) ingressTrace() {
	tags, err := json.Marshal(map[string]string{"k8s.namespace": c.namespace, "k8s.name": "shops", "http.response.status_code": "200"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.await(2*time.Minute, "a span of the ingress", func() bool {
		var answer struct {
			Data []jaegerTrace `json:"data"`
		}
		query(c.t, os.Getenv(jaegerVariable)+"/api/traces?"+url.Values{"service": {"ingress"}, "tags": {string(tags)}, "limit": {"5"}, "lookback": {"1h"}}.Encode(), &answer)
		return len(answer.Data) > 0
	})
}
