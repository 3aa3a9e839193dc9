package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"slices"
)

// FrontProxy says which clients speak for others, and by which headers.
type FrontProxy struct {
	// CAs signed the proxies' certificates.
	CAs []*x509.Certificate
	// Clients are the authorities of ordinary clients: a certificate of the proxies' authority alone is no client's.
	Clients *x509.CertPool
	// AllowedNames are the common names of proxies; empty allows every certificate of the CAs.
	AllowedNames []string
	// UsernameHeaders, UIDHeaders and GroupHeaders name the user; of the first two, the first that is set counts.
	UsernameHeaders, UIDHeaders, GroupHeaders []string
	// ExtraPrefixes begin the headers with extra information.
	ExtraPrefixes []string
}

// caller returns whom a front proxy names. ok is false where the request is not a front proxy's.
func (p *FrontProxy) caller(r *http.Request) (caller Caller, ok bool, err error) {
	if r.TLS == nil || !issuedBy(r.TLS, func(root *x509.Certificate) bool { return slices.ContainsFunc(p.CAs, root.Equal) }) {
		return Caller{}, false, nil
	}
	if len(p.AllowedNames) > 0 && !slices.Contains(p.AllowedNames, r.TLS.PeerCertificates[0].Subject.CommonName) {
		return Caller{}, false, nil
	}
	caller.User, caller.UID = firstOf(r.Header, p.UsernameHeaders), firstOf(r.Header, p.UIDHeaders)
	if caller.User == "" {
		return Caller{}, false, nil
	}
	for _, name := range p.GroupHeaders {
		caller.Groups = append(caller.Groups, r.Header.Values(name)...)
	}
	for _, prefix := range p.ExtraPrefixes {
		caller.Extra = append(caller.Extra, extras(r.Header, prefix)...)
	}
	for _, name := range append([]string{caller.User, caller.UID}, caller.Groups...) {
		if !printable(name) {
			return Caller{}, false, errors.New("the names that the front proxy sends are not printable ASCII")
		}
	}
	return caller, true, nil
}

// client reports whether the certificate is one of an ordinary client's authority.
func (p *FrontProxy) client(state *tls.ConnectionState) bool {
	return issuedBy(state, func(root *x509.Certificate) bool {
		_, err := root.Verify(x509.VerifyOptions{Roots: p.Clients, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		return err == nil
	})
}

// issuedBy reports whether a verified chain of the connection ends at such a root.
func issuedBy(state *tls.ConnectionState, root func(*x509.Certificate) bool) bool {
	return slices.ContainsFunc(state.VerifiedChains, func(chain []*x509.Certificate) bool {
		return len(chain) > 0 && root(chain[len(chain)-1])
	})
}

func firstOf(h http.Header, names []string) string {
	for _, name := range names {
		if value := h.Get(name); value != "" {
			return value
		}
	}
	return ""
}
