// Package pkitest makes authorities and certificates for tests.
package pkitest

import (
	"crypto/tls"
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
