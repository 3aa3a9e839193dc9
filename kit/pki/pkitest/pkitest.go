// Package pkitest makes authorities and certificates for tests.
package pkitest

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"howdah.dev/kit/pki"
)

// Authority returns a new one.
func Authority(t testing.TB) *pki.Authority {
	t.Helper()
	a, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Certificate returns one of the authority, with its key.
func Certificate(t testing.TB, a *pki.Authority, s pki.Subject) tls.Certificate {
	t.Helper()
	pair, err := a.Issue(s, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Sign answers a request, in PEM, as a signer of client certificates does: with one that lasts from now for 100 hours, also in PEM. change, which may be
// nil, makes another one of it.
func Sign(t testing.TB, a *pki.Authority, request []byte, change func(c *x509.Certificate)) []byte {
	t.Helper()
	block, _ := pem.Decode(request)
	if block == nil {
		t.Fatalf("no request: %q", request)
		return nil
	}
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = asked.CheckSignature()
	}
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: asked.Subject, DNSNames: asked.DNSNames, IPAddresses: asked.IPAddresses,
		NotBefore: time.Now(), NotAfter: time.Now().Add(100 * time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	keyPEM, err := a.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.DecodeKey(keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, asked.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Until has a certificate of 100 hours end then.
func Until(end time.Time) func(c *x509.Certificate) {
	return func(c *x509.Certificate) { c.NotBefore, c.NotAfter = end.Add(-100*time.Hour), end }
}
