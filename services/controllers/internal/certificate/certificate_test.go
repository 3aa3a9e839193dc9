package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/pki"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// authority lasts a year from now.
func authority(t *testing.T) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: now, NotAfter: now.AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a, err := NewAuthority(certPEM, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The authority is the one that the key is of, wherever its certificate stands.
func TestAuthorityOfTheKey(t *testing.T) {
	t.Parallel()
	var text []byte
	keys := map[string][]byte{}
	for _, name := range []string{"one", "two", "three"} {
		a, err := pki.NewAuthority(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if keys[name], err = a.KeyPEM(); err != nil {
			t.Fatal(err)
		}
		if name != "three" {
			text = append(text, a.PEM()...)
		}
	}
	var of string
	source := func() ([]byte, []byte, error) { return text, keys[of], nil }
	seen := map[string]bool{}
	for _, of = range []string{"one", "two"} {
		a, err := Read(source)
		if err != nil {
			t.Fatal(err)
		}
		seen[string(a.certificate.Raw)] = true
	}
	if len(seen) != 2 {
		t.Error("both keys sign by the same certificate")
	}
	of = "three"
	if _, err := Read(source); err == nil || err.Error() != "no certificate is of the key" {
		t.Errorf("a key of none: %v", err)
	}
}

// asking is a request in PEM, signed by a key of its own.
func asking(t *testing.T, template x509.CertificateRequest) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func TestSign(t *testing.T) {
	t.Parallel()
	a := authority(t)
	r := &request{Spec: certificatesv1.CertificateSigningRequestSpec{Request: asking(t, x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "jane", Organization: []string{"devs"}}, DNSNames: []string{"jane.example.com"},
	})}}
	asked, err := parse(r)
	if err != nil {
		t.Fatal(err)
	}
	usages := []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	for name, c := range map[string]struct {
		lasts time.Duration
		until time.Time
	}{
		"as long as asked":             {10 * time.Minute, now.Add(10 * time.Minute)},
		"from a little before":         {short, now.Add(short - backdate)},
		"no longer than the authority": {3 * 365 * 24 * time.Hour, now.AddDate(1, 0, 0)},
	} {
		text, err := a.sign(asked, usages, c.lasts, now)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(text)
		issued, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if err := issued.CheckSignatureFrom(a.certificate); err != nil {
			t.Error(err)
		}
		if !issued.NotBefore.Equal(now.Add(-backdate)) || !issued.NotAfter.Equal(c.until) {
			t.Errorf("%s: from %s to %s", name, issued.NotBefore, issued.NotAfter)
		}
		if issued.Subject.CommonName != "jane" || issued.Subject.Organization[0] != "devs" || len(issued.DNSNames) != 1 || issued.IsCA ||
			issued.KeyUsage != x509.KeyUsageDigitalSignature || len(issued.ExtKeyUsage) != 2 {
			t.Errorf("%s: %+v", name, issued)
		}
	}
	if _, err := a.sign(asked, []certificatesv1.KeyUsage{"flying"}, time.Hour, now); err == nil {
		t.Error("an unknown usage is signed")
	}
	if _, err := a.sign(asked, usages, time.Hour, now.AddDate(2, 0, 0)); err == nil {
		t.Error("an authority that has ended signs")
	}
}

func TestSignersRules(t *testing.T) {
	t.Parallel()
	const (
		client, node    = certificatesv1.KubeAPIServerClientSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName
		serving, legacy = certificatesv1.KubeletServingSignerName, legacyUnknownSigner
	)
	clientUsages, servingUsages := "client auth,digital signature", "server auth,digital signature,key encipherment"
	nodeName := pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}}
	address := []net.IP{net.IPv4(10, 0, 0, 1)}
	for name, c := range map[string]struct {
		signer, usages string
		asked          x509.CertificateRequest
		refused        string
	}{
		"anybody's client":          {client, clientUsages, x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane"}, DNSNames: []string{"x"}}, ""},
		"client without its usage":  {client, "digital signature", x509.CertificateRequest{}, "client auth"},
		"client that serves":        {client, clientUsages + ",server auth", x509.CertificateRequest{}, "server auth"},
		"a name of the mesh":        {client, clientUsages, x509.CertificateRequest{Subject: pkix.Name{CommonName: "howdah:gateway"}}, "control plane's own"},
		"a group of the mesh":       {legacy, "any", x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", Organization: []string{"a", "howdah:gateways"}}}, "control plane's own"},
		"legacy":                    {legacy, "any", x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane"}}, ""},
		"node's client":             {node, clientUsages + ",key encipherment", x509.CertificateRequest{Subject: nodeName}, ""},
		"node of no group":          {node, clientUsages, x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:a"}}, "organization"},
		"node of another name":      {node, clientUsages, x509.CertificateRequest{Subject: pkix.Name{CommonName: "a", Organization: []string{"system:nodes"}}}, "common name"},
		"node's client that serves": {node, servingUsages, x509.CertificateRequest{Subject: nodeName}, "usages"},
		"node's client with a name": {node, clientUsages, x509.CertificateRequest{Subject: nodeName, DNSNames: []string{"a"}}, "DNS"},
		"node's client with an IP":  {node, clientUsages, x509.CertificateRequest{Subject: nodeName, IPAddresses: address}, "IP"},
		"node's server":             {serving, servingUsages, x509.CertificateRequest{Subject: nodeName, IPAddresses: address}, ""},
		"node's server, EC key":     {serving, "digital signature,server auth", x509.CertificateRequest{Subject: nodeName, DNSNames: []string{"a"}, IPAddresses: address}, ""},
		"node's server, no address": {serving, servingUsages, x509.CertificateRequest{Subject: nodeName}, "required"},
		"node's server, email":      {serving, servingUsages, x509.CertificateRequest{Subject: nodeName, IPAddresses: address, EmailAddresses: []string{"a@b.c"}}, "Email"},
		"node's server, URI":        {serving, servingUsages, x509.CertificateRequest{Subject: nodeName, IPAddresses: address, URIs: []*url.URL{{Scheme: "a", Host: "b"}}}, "URI"},
		"node's server as client":   {serving, clientUsages, x509.CertificateRequest{Subject: nodeName, IPAddresses: address}, "usages"},
	} {
		var usages []certificatesv1.KeyUsage
		for usage := range strings.SplitSeq(c.usages, ",") {
			usages = append(usages, certificatesv1.KeyUsage(usage))
		}
		err := signers[c.signer](&c.asked, usages)
		if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: got %v, want %q", name, err, c.refused)
		}
	}
}

func TestLasting(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int32]time.Duration{600: 10 * time.Minute, 1: 10 * time.Minute, 7200: 2 * time.Hour, 1 << 30: 24 * time.Hour} {
		if got := lasting(&request{Spec: certificatesv1.CertificateSigningRequestSpec{ExpirationSeconds: &seconds}}, 24*time.Hour); got != want {
			t.Errorf("%d s: %s, want %s", seconds, got, want)
		}
	}
	if got := lasting(&request{}, 24*time.Hour); got != 24*time.Hour {
		t.Error(got)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	good := asking(t, x509.CertificateRequest{})
	block, _ := pem.Decode(good)
	block.Bytes[len(block.Bytes)-1] ^= 1
	for name, text := range map[string][]byte{
		"nothing": nil, "no PEM": []byte("x"), "another block": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE"}),
		"no request": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")}), "a wrong signature": pem.EncodeToMemory(block),
	} {
		if _, err := parse(&request{Spec: certificatesv1.CertificateSigningRequestSpec{Request: text}}); err == nil {
			t.Errorf("%s is a request", name)
		}
	}
}

func TestGoes(t *testing.T) {
	t.Parallel()
	a := authority(t)
	asked, err := parse(&request{Spec: certificatesv1.CertificateSigningRequestSpec{Request: asking(t, x509.CertificateRequest{})}})
	if err != nil {
		t.Fatal(err)
	}
	certificate := func(lasts time.Duration) []byte {
		text, err := a.sign(asked, nil, lasts, now)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	decided := func(kind certificatesv1.RequestConditionType, after time.Duration) []certificatesv1.CertificateSigningRequestCondition {
		return []certificatesv1.CertificateSigningRequestCondition{{Type: kind, Status: corev1.ConditionTrue, LastUpdateTime: metav1.NewTime(now.Add(after))}}
	}
	for name, c := range map[string]struct {
		status certificatesv1.CertificateSigningRequestStatus
		after  time.Duration
	}{
		"pending":             {certificatesv1.CertificateSigningRequestStatus{}, 24 * time.Hour},
		"approved, unsigned":  {certificatesv1.CertificateSigningRequestStatus{Conditions: decided(certificatesv1.CertificateApproved, time.Hour)}, 24 * time.Hour},
		"signed":              {certificatesv1.CertificateSigningRequestStatus{Conditions: decided(certificatesv1.CertificateApproved, time.Hour), Certificate: certificate(24 * time.Hour)}, 2 * time.Hour},
		"signed for a moment": {certificatesv1.CertificateSigningRequestStatus{Conditions: decided(certificatesv1.CertificateApproved, time.Hour), Certificate: certificate(time.Hour)}, time.Hour},
		"denied":              {certificatesv1.CertificateSigningRequestStatus{Conditions: decided(certificatesv1.CertificateDenied, 3*time.Hour)}, 4 * time.Hour},
		"failed":              {certificatesv1.CertificateSigningRequestStatus{Conditions: decided(certificatesv1.CertificateFailed, 0)}, time.Hour},
	} {
		r := &request{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now)}, Status: c.status}
		if got := goes(r).Sub(now); got != c.after {
			t.Errorf("%s goes after %s, not %s", name, got, c.after)
		}
	}
}
