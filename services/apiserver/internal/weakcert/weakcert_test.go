package weakcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/audit"
	"howdah.dev/services/apiserver/internal/authn"
)

// authority signs a certificate for a server called localhost.
func authority(t *testing.T) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return parsed, key
}

// serve has a server show a certificate of the authority.
func serve(t *testing.T, ca *x509.Certificate, key *ecdsa.PrivateKey, template x509.Certificate) *httptest.Server {
	t.Helper()
	template.SerialNumber, template.Subject, template.NotAfter = big.NewInt(2), pkix.Name{CommonName: "localhost"}, time.Now().Add(time.Hour)
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, ca, own.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "here") }))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: own}}}
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
		name     string
		template x509.Certificate
		verify   bool
		refused  bool
		want     map[string]string
	}{
		{name: "sound", template: x509.Certificate{DNSNames: names}, verify: true},
		{
			name: "without names", verify: true, refused: true,
			want: map[string]string{missing: "relies on a legacy Common Name field instead of the SAN extension for subject validation"},
		},
		{
			name: "without names, not verified",
			want: map[string]string{missing: "relies on a legacy Common Name field instead of the SAN extension for subject validation"},
		},
		{
			name: "SHA-1", template: x509.Certificate{DNSNames: names, SignatureAlgorithm: x509.ECDSAWithSHA1}, verify: true, refused: true,
			want: map[string]string{sha1: "uses an insecure SHA-1 signature"},
		},
		{
			name: "SHA-1, not verified", template: x509.Certificate{DNSNames: names, SignatureAlgorithm: x509.ECDSAWithSHA1},
			want: map[string]string{sha1: "uses an insecure SHA-1 signature"},
		},
		{name: "of somebody else", template: x509.Certificate{DNSNames: []string{"elsewhere"}}, verify: true, refused: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ca, key := authority(t)
			server := serve(t, ca, key, tt.template)
			roots := x509.NewCertPool()
			roots.AddCert(ca)
			registry := prometheus.NewRegistry()
			transport := New(registry, "test").Wrap(&http.Transport{
				TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, InsecureSkipVerify: !tt.verify}, //nolint:gosec // as a case asks
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
