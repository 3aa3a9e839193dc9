package identity

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
)

// FrontProxy says which clients speak for others, and by which headers.
type FrontProxy struct {
	// Authorities signed the proxies' certificates: as they are now.
	Authorities func() *x509.CertPool
	// AllowedNames are the common names of proxies; empty allows every certificate of the CAs.
	AllowedNames []string
	// UsernameHeaders, UIDHeaders and GroupHeaders name the user; of the first two, the first that is set counts.
	UsernameHeaders, UIDHeaders, GroupHeaders []string
	// ExtraPrefixes begin the headers with extra information.
	ExtraPrefixes []string
}

// caller returns whom a front proxy names. ok is false where it names nobody; that the request is no front proxy's is an error.
func (p *FrontProxy) caller(r *http.Request) (caller Caller, ok bool, err error) {
	if err := verify(r, p.Authorities()); err != nil {
		return Caller{}, false, err
	}
	if name := r.TLS.PeerCertificates[0].Subject.CommonName; len(p.AllowedNames) > 0 && !slices.Contains(p.AllowedNames, name) {
		return Caller{}, false, fmt.Errorf("%q is no front proxy's name", name)
	}
	caller.User, caller.UID = firstOf(r.Header, p.UsernameHeaders), firstOf(r.Header, p.UIDHeaders)
	if caller.User == "" {
		return Caller{}, false, nil
	}
	for _, name := range p.GroupHeaders {
		caller.Groups = append(caller.Groups, slices.DeleteFunc(slices.Clone(r.Header.Values(name)), func(group string) bool { return group == "" })...)
	}
	for _, prefix := range p.ExtraPrefixes {
		caller.Extra = append(caller.Extra, extras(r.Header, prefix)...)
	}
	return caller, true, nil
}

func firstOf(h http.Header, names []string) string {
	for _, name := range names {
		if value := h.Get(name); value != "" {
			return value
		}
	}
	return ""
}
