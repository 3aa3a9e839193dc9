// Package weakcert tells of servers whose certificates are of a form that clients no longer take: without alternative names, or signed with SHA-1. Most
// are refused, and the error says so; metrics and the audit log say whose they are, among them of servers that are not verified at all.
//
// Source: "Auditing" (audit annotations missing-san.invalid-cert.kubernetes.io and insecure-sha1.invalid-cert.kubernetes.io) in the Kubernetes reference.
package weakcert

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/kit/obs"
	"howdah.dev/services/apiserver/internal/audit"
)

// Weaknesses are counted by what they are.
type Weaknesses struct{ known []weakness }

// weakness is one way in which a certificate may be weak.
type weakness struct {
	name, reason string
	// refused says that this is why a connection came to nothing; shown, that the certificates of one, the server's first, are so.
	refused func(error) bool
	shown   func([]*x509.Certificate) bool
	total   prometheus.Counter
}

// New returns counters with Kubernetes' names, prefix_x509_missing_san_total and prefix_x509_insecure_sha1_total, which it registers unless registerer is nil.
func New(registerer prometheus.Registerer, prefix string) *Weaknesses {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
		if registerer == nil {
			return c
		}
		return obs.Register(registerer, c)
	}
	return &Weaknesses{known: []weakness{
		{
			name: "missing-san", reason: "relies on a legacy Common Name field instead of the SAN extension for subject validation",
			refused: withoutNames, shown: func(chain []*x509.Certificate) bool { return !named(chain[0]) },
			total: counter("_x509_missing_san_total", "Requests to servers whose certificate has no subject alternative name."),
		},
		{
			name: "insecure-sha1", reason: "uses an insecure SHA-1 signature",
			refused: withSHA1, shown: func(chain []*x509.Certificate) bool { return slices.ContainsFunc(chain, signedWithSHA1) },
			total: counter("_x509_insecure_sha1_total", "Requests to servers that show a certificate signed with SHA-1."),
		},
	}}
}

// Wrap returns a transport that counts weak certificates and notes them in the audit entry of the request's context.
func (w *Weaknesses) Wrap(t *http.Transport) *Transport { return &Transport{t, w} }

// Transport is a http.Transport whose servers' certificates are looked at.
type Transport struct {
	*http.Transport
	weaknesses *Weaknesses
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.Transport.RoundTrip(r)
	for i := range t.weaknesses.known {
		if weak := &t.weaknesses.known[i]; weak.found(response, err) {
			weak.tell(r.Context(), r.URL.Hostname())
		}
	}
	return response, err
}

func (w *weakness) found(response *http.Response, err error) bool {
	if err != nil {
		return w.refused(err)
	}
	return response.TLS != nil && len(response.TLS.PeerCertificates) > 0 && w.shown(response.TLS.PeerCertificates)
}

func (w *weakness) tell(ctx context.Context, host string) {
	w.total.Inc()
	slog.InfoContext(ctx, "a server's certificate is weak", "host", host, "reason", w.reason)
	audit.From(ctx).Annotate(w.name+".invalid-cert.kubernetes.io/"+host, w.reason)
}

// withoutNames tells by its text what crypto/x509 has no type for.
func withoutNames(err error) bool {
	_, ok := errors.AsType[x509.HostnameError](err)
	return ok && strings.Contains(err.Error(), "certificate relies on legacy Common Name field")
}

func withSHA1(err error) bool {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok {
		return false
	}
	_, why, ok := strings.Cut(err.Error(), "x509: cannot verify signature: insecure algorithm")
	return ok && strings.Contains(why, "SHA1")
}

var alternativeNames = asn1.ObjectIdentifier{2, 5, 29, 17}

func named(c *x509.Certificate) bool {
	for _, e := range c.Extensions {
		if e.Id.Equal(alternativeNames) {
			return true
		}
	}
	return false
}

// signedWithSHA1 spares certificates that sign themselves: nobody verifies the signature of a root.
func signedWithSHA1(c *x509.Certificate) bool {
	return (c.SignatureAlgorithm == x509.SHA1WithRSA || c.SignatureAlgorithm == x509.ECDSAWithSHA1) && !bytes.Equal(c.RawIssuer, c.RawSubject)
}
