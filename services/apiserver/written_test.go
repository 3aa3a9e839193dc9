package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// A certificate is counted when it has been written, once, and not when it was only tried.
func TestIssuedCertificatesAreCounted(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	f := startMemory(t, func(c *Config) { c.Registerer = registry })
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	encoded := func(kind string, der []byte, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "a"}}, key)
	request := encoded("CERTIFICATE REQUEST", der, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(3600, 0)}
	der, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	certificate := encoded("CERTIFICATE", der, err)

	const resource = "certificates.k8s.io/v1/certificatesigningrequests"
	if _, err := f.create(resource, "", fmt.Sprintf(`{"metadata":{"name":"a"},"spec":{"request":%q,"signerName":"example.com/a","expirationSeconds":3600,"usages":["client auth"]}}`, request)); err != nil {
		t.Fatal(err)
	}
	status := func(body string, options ...func(*apiv1.PatchRequest)) {
		t.Helper()
		options = append(options, func(r *apiv1.PatchRequest) { r.Subresource = "status" })
		if _, err := f.change(resource, "", "a", "merge-patch+json", body, options...); err != nil {
			t.Fatal(err)
		}
	}
	counted := func(want float64) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if m.GetCounter() != nil {
					got[family.GetName()] += m.GetCounter().GetValue()
				}
			}
		}
		for _, name := range []string{"honored", "requested"} {
			if n := got["apiserver_certificates_registry_csr_"+name+"_duration_total"]; n != want {
				t.Errorf("%s: %v, want %v", name, n, want)
			}
		}
	}
	issued := fmt.Sprintf(`{"status":{"certificate":%q}}`, certificate)
	status(issued, func(r *apiv1.PatchRequest) { r.DryRun = []string{"All"} })
	counted(0)
	status(issued)
	counted(1)
	status(`{"status":{"conditions":[{"type":"Noted","status":"True","reason":"A"}]}}`)
	counted(1)
}
