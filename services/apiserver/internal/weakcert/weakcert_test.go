package weakcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/pki"
	"howdah.dev/kit/pki/pkitest"
	"howdah.dev/services/apiserver/internal/audit"
	"howdah.dev/services/apiserver/internal/authn"
)

// serve has a server called localhost show a certificate of the authority; change may make it a weak one.
func serve(t *testing.T, ca *pki.Authority, change func(*x509.Certificate)) *httptest.Server {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "localhost"}}, own)
	if err != nil {
		t.Fatal(err)
	}
	signed, _ := pem.Decode(pkitest.Sign(t, ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: asked}), func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		change(c)
	}))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "here") }))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{signed.Bytes}, PrivateKey: own}}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// newEntry is the entry of a request, and the event that it has come to once the request has ended.
func newEntry(t *testing.T) (*audit.Slot, func() auditv1.Event) {
	t.Helper()
	dir := t.TempDir()
	policy, path := filepath.Join(dir, "policy"), filepath.Join(dir, "log")
	if err := os.WriteFile(policy, []byte(`{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}], "omitStages": ["RequestReceived"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := audit.New(audit.Config{PolicyFile: policy, File: audit.FileConfig{Path: path}, Metrics: audit.NewMetrics(nil), Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	entry := l.Begin(&audit.Request{User: &authn.User{Name: "jane"}, Verb: "get", Origin: audit.Origin{AuditID: "1"}})
	slot := &audit.Slot{}
	slot.Put(entry)
	return slot, func() (event auditv1.Event) {
		entry.End(http.StatusOK, nil, "", nil)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &event); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		return event
	}
}

// counted is the value of a counter.
func counted(t *testing.T, from prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestWeaknesses(t *testing.T) {
	t.Parallel()
	const missing, sha1 = "missing-san.invalid-cert.kubernetes.io/localhost", "insecure-sha1.invalid-cert.kubernetes.io/localhost"
	names := []string{"localhost"}
	for _, tt := range []struct {
		name    string
		names   []string
		signed  x509.SignatureAlgorithm
		verify  bool
		refused bool
		want    map[string]string
	}{
		{name: "sound", names: names, verify: true},
		{
			name: "without names", verify: true, refused: true,
			want: map[string]string{missing: "relies on a legacy Common Name field instead of the SAN extension for subject validation"},
		},
		{
			name: "without names, not verified",
			want: map[string]string{missing: "relies on a legacy Common Name field instead of the SAN extension for subject validation"},
		},
		{
			name: "SHA-1", names: names, signed: x509.ECDSAWithSHA1, verify: true, refused: true,
			want: map[string]string{sha1: "uses an insecure SHA-1 signature"},
		},
		{
			name: "SHA-1, not verified", names: names, signed: x509.ECDSAWithSHA1,
			want: map[string]string{sha1: "uses an insecure SHA-1 signature"},
		},
		{name: "of somebody else", names: []string{"elsewhere"}, verify: true, refused: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ca := pkitest.Authority(t)
			server := serve(t, ca, func(c *x509.Certificate) { c.DNSNames, c.SignatureAlgorithm = tt.names, tt.signed })
			registry := prometheus.NewRegistry()
			transport := New(registry, "test").Wrap(&http.Transport{
				TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.Pool(), InsecureSkipVerify: !tt.verify}, //nolint:gosec // as a case asks
			})
			defer transport.CloseIdleConnections()
			_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
			entry, event := newEntry(t)
			request, err := http.NewRequestWithContext(audit.WithSlot(t.Context(), entry), http.MethodGet, "https://localhost:"+port, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if err == nil {
				response.Body.Close()
			}
			if (err != nil) != tt.refused {
				t.Fatalf("err = %v, want refused %t", err, tt.refused)
			}
			if got := event().Annotations; !maps.Equal(got, tt.want) {
				t.Errorf("annotations %v, want %v", got, tt.want)
			}
			for metric, key := range map[string]string{"test_x509_missing_san_total": missing, "test_x509_insecure_sha1_total": sha1} {
				want := 0.0
				if tt.want[key] != "" {
					want = 1
				}
				if got := counted(t, registry, metric); got != want {
					t.Errorf("%s is %v, want %v", metric, got, want)
				}
			}
		})
	}
}
