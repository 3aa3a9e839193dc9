package identity

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// uidAttribute is the attribute of a subject that is the user's uid, of Kubernetes' own arc.
var uidAttribute = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}

// shown reports whether the client showed a certificate; TLS asks for one and verifies none, so that a bad one is answered 401.
func shown(state *tls.ConnectionState) bool { return state != nil && len(state.PeerCertificates) > 0 }

// now are the authorities as they are; nil where there are none.
func now(authorities func() *x509.CertPool) *x509.CertPool {
	if authorities == nil {
		return nil
	}
	return authorities()
}

// verify fails unless the client's certificate is, now and for clients, of one of the authorities.
func verify(r *http.Request, authorities *x509.CertPool) error {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	if c.verified(authorities, time.Now()) {
		return nil
	}
	if authorities == nil {
		return errors.New("no authority signs clients' certificates")
	}
	options := x509.VerifyOptions{Roots: authorities, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, intermediate := range r.TLS.PeerCertificates[1:] {
		options.Intermediates.AddCert(intermediate)
	}
	chains, err := r.TLS.PeerCertificates[0].Verify(options)
	if err == nil {
		c.remember(authorities, chains[0])
	}
	return err
}

type connectionKey struct{}

// connection remembers until when the client's certificate is good, by authorities: that it is takes as long to find out as much of a request.
type connection struct {
	mu    sync.Mutex
	until map[*x509.CertPool]time.Time
}

// WithConnection returns the context of a connection's requests, whose client's certificate is verified once.
func WithConnection(ctx context.Context) context.Context {
	return context.WithValue(ctx, connectionKey{}, &connection{until: map[*x509.CertPool]time.Time{}})
}

func (c *connection) verified(authorities *x509.CertPool, now time.Time) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Before(c.until[authorities])
}

func (c *connection) remember(authorities *x509.CertPool, chain []*x509.Certificate) {
	if c == nil {
		return
	}
	until := chain[0].NotAfter
	for _, cert := range chain {
		if cert.NotAfter.Before(until) {
			until = cert.NotAfter
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until[authorities] = until
}

// client returns the subject of the certificate. ok is false where it names nobody.
func (i Identifier) client(r *http.Request) (caller Caller, ok bool, err error) {
	cert := r.TLS.PeerCertificates[0]
	if i.Expiration != nil {
		i.Expiration.Observe(time.Until(cert.NotAfter).Seconds())
	}
	if err := i.verify(r); err != nil {
		return Caller{}, false, err
	}
	if cert.Subject.CommonName == "" {
		return Caller{}, false, nil
	}
	uid, err := uidOf(cert)
	if err != nil {
		return Caller{}, false, err
	}
	sum := sha256.Sum256(cert.Raw)
	return Caller{
		User: cert.Subject.CommonName, UID: uid, Groups: cert.Subject.Organization,
		Extra: []Extra{{credentialID, "X509SHA256=" + hex.EncodeToString(sum[:])}},
	}, true, nil
}

// verify fails unless one of the authorities signed the client's certificate, and might give its names.
func (i Identifier) verify(r *http.Request) error {
	err := verify(r, now(i.Clients))
	if err == nil || i.Others == nil || verify(r, i.Others()) != nil {
		return err
	}
	subject := r.TLS.PeerCertificates[0].Subject
	for _, name := range append([]string{subject.CommonName}, subject.Organization...) {
		if strings.HasPrefix(name, "howdah:") {
			return fmt.Errorf("the certificate is for %s, which the cluster's own authority alone may name", name)
		}
	}
	return nil
}

func uidOf(cert *x509.Certificate) (uid string, err error) {
	found := false
	for _, attribute := range cert.Subject.Names {
		if !attribute.Type.Equal(uidAttribute) {
			continue
		}
		text, ok := attribute.Value.(string)
		if !ok || text == "" || found {
			return "", errors.New("the uid of the certificate's subject must be one text that is not empty")
		}
		uid, found = text, true
	}
	return uid, nil
}
