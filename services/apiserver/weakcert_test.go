package apiserver

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"howdah.dev/kit/pki"
	"howdah.dev/kit/pki/pkitest"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// nameless starts a server whose certificate has no alternative name, and returns its port.
func nameless(t *testing.T, authority *pki.Authority, commonName string, h http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pkitest.Certificate(t, authority, pki.Subject{CommonName: commonName})}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return portOf(t, server)
}

// TestWeakCertificatesAreAudited: whose certificate is of a form that clients no longer take stands with the requests that needed its server.
func TestWeakCertificatesAreAudited(t *testing.T) {
	t.Parallel()
	const reason = "relies on a legacy Common Name field instead of the SAN extension for subject validation"
	authority := pkitest.Authority(t)
	f, events := audited(t, func(c *Config) {
		c.PodDialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, strings.Replace(address, "10.1.2.3", "127.0.0.1", 1))
		}
	})

	port := nameless(t, authority, "localhost", http.NotFoundHandler())
	defer f.configure("validatingwebhookconfigurations", "c", `{"name":"a.example.com","clientConfig":{"url":"https://localhost:`+port+`/","caBundle":"`+
		base64.StdEncoding.EncodeToString(authority.PEM())+`"},"failurePolicy":"Fail","sideEffects":"None","admissionReviewVersions":["v1"],
		"rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]}`)()
	if _, err := f.create(configMaps, "default", guardedMap("x")); err == nil || !strings.Contains(err.Error(), "certificate relies on legacy Common Name field") {
		t.Errorf("the webhook without names: %v", err)
	}

	port = nameless(t, authority, "metrics.default.svc", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"metrics.example.com/v1","resources":[]}`)
	}))
	f.must(f.create("v1/services", "default", `{"metadata":{"name":"metrics"},"spec":{"clusterIP":"10.96.7.7","ports":[{"port":443}]}}`))
	f.must(f.create("discovery.k8s.io/v1/endpointslices", "default", `{"metadata":{"name":"metrics-1","labels":{"kubernetes.io/service-name":"metrics"}},"addressType":"IPv4",
		"endpoints":[{"addresses":["10.1.2.3"]}],"ports":[{"name":"","port":`+port+`}]}`))
	f.must(f.create("apiregistration.k8s.io/v1/apiservices", "", `{"metadata":{"name":"v1.metrics.example.com"},"spec":{"group":"metrics.example.com","version":"v1",
		"groupPriorityMinimum":100,"versionPriority":10,"service":{"namespace":"default","name":"metrics"},"insecureSkipTLSVerify":true}}`))
	f.condition("v1.metrics.example.com", apiregistrationv1.ConditionTrue, "Passed")
	if got, err := f.proxied(&apiv1.ConnectOpen{
		Group: "metrics.example.com", Version: "v1", Resource: "loads", Namespace: metav1.NamespaceDefault, Name: "one", Subresource: "status",
		Path: "/apis/metrics.example.com/v1/namespaces/default/loads/one/status",
	}); err != nil || got.code != http.StatusOK {
		t.Errorf("the extension without names: %v %+v", err, got)
	}

	for _, want := range []struct{ verb, name, annotation string }{
		{"create", "x", "missing-san.invalid-cert.kubernetes.io/localhost"},
		{"get", "one", "missing-san.invalid-cert.kubernetes.io/10.96.7.7"},
	} {
		found := about(events(), want.verb, want.name)
		if len(found) == 0 || found[len(found)-1].Annotations[want.annotation] != reason {
			t.Errorf("%s %s: events %+v, want one with %s", want.verb, want.name, found, want.annotation)
		}
	}
}
