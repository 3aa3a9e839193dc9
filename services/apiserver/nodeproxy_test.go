package apiserver

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"howdah.dev/kit/pki"
	"howdah.dev/kit/pki/pkitest"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// TestProxyToNodesEndpoint asks a node's HTTPS endpoint, which knows the API server by its certificate; and the other ports of the node,
// which are not shown it.
func TestProxyToNodesEndpoint(t *testing.T) {
	authority := pkitest.Authority(t)
	issue := func(s pki.Subject) tls.Certificate { return pkitest.Certificate(t, authority, s) }
	tell := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := "nobody"
		if len(r.TLS.PeerCertificates) > 0 {
			who = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		fmt.Fprintf(w, "%s %s by %s", r.Method, r.URL.RequestURI(), who)
	})
	serve := func(s pki.Subject) *httptest.Server {
		server := httptest.NewUnstartedServer(tell)
		server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert, Certificates: []tls.Certificate{issue(s)}}
		server.StartTLS()
		t.Cleanup(server.Close)
		return server
	}
	endpoint := serve(pki.Subject{CommonName: "system:node:n1", Organizations: []string{"system:nodes"}, Hosts: []string{"n1"}})
	other := serve(pki.Subject{CommonName: "other", Hosts: []string{"other"}})
	own := issue(pki.Subject{CommonName: "howdah:apiserver", Client: true})
	f := startMemory(t, leadingHome, func(c *Config) {
		c.NodeTLS = &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, InsecureSkipVerify: true,
			VerifyConnection: func(s tls.ConnectionState) error {
				if !slices.Contains(s.PeerCertificates[0].Subject.Organization, "system:nodes") {
					return errors.New("not a node's")
				}
				return nil
			},
		}
	})
	node := func(name, port, agent string) {
		n := f.must(f.create("v1/nodes", "", `{"metadata":{"name":"`+name+`","annotations":{"howdah.dev/agent-port":"`+agent+`"}}}`))
		n["status"] = map[string]any{
			"addresses":       []any{map[string]any{"type": "InternalIP", "address": "10.1.2.3"}},
			"daemonEndpoints": map[string]any{"kubeletEndpoint": map[string]any{"Port": json.Number(port)}},
		}
		body, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.api.Update(f.ctx, &apiv1.UpdateRequest{Version: "v1", Resource: "nodes", Name: name, Subresource: "status", Object: body}); err != nil {
			t.Fatal(err)
		}
	}
	port, otherPort := portOf(t, endpoint), portOf(t, other)
	node("n1", port, "7443")
	node("false", otherPort, "7443")
	for name, want := range map[string]string{
		"n1":                    "GET /metrics/resource?a=b by howdah:apiserver",
		"n1:" + port:            "GET /metrics/resource?a=b by howdah:apiserver",
		"https:n1:" + port:      "GET /metrics/resource?a=b by howdah:apiserver",
		"https:n1:" + otherPort: "GET /metrics/resource?a=b by nobody",
		"https:false:" + port:   "GET /metrics/resource?a=b by nobody", // that node's endpoint is another
	} {
		got, err := f.proxied(&apiv1.ConnectOpen{Resource: "nodes", Name: name, Path: "/metrics/resource", Query: "a=b"})
		if err != nil || got.body != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := f.proxied(&apiv1.ConnectOpen{Resource: "nodes", Name: "false", Path: "/metrics"}); err == nil || status(err).Code != http.StatusServiceUnavailable {
		t.Errorf("whose certificate is not a node's: %v", err)
	}
}
