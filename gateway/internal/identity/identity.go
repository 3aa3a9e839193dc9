// Package identity reads who calls from a request's credentials and says so
// to the services behind the gateway. It verifies certificates only;
// tokens and passwords are the API server's to judge, and so is whether the
// caller may act as somebody else.
package identity

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/metadata"
)

// Metadata keys by which the gateway says for whom it calls. The API server
// believes them from gateways only. Names that are not printable ASCII have
// the keys that end in -bin.
const (
	userKey  = "howdah-user"
	groupKey = "howdah-group"
	uidKey   = "howdah-uid"
	extraKey = "howdah-extra" // key=value, both escaped as in a query
)

// Names of the caller without credentials.
const (
	Anonymous       = "system:anonymous"
	unauthenticated = "system:unauthenticated"
)

// credentialID is the key under which it is told by which credential a caller was known.
const credentialID = "authentication.kubernetes.io/credential-id"

// tokenProtocol offers a bearer token where a browser can set no header: as
// a WebSocket subprotocol, base64url without padding.
const tokenProtocol = "base64url.bearer.authorization.k8s.io."

// Caller is who calls. With a Credential, User and Groups are unknown.
type Caller struct {
	User   string
	UID    string
	Groups []string
	Extra  []Extra
	// Credential is a token or password as it stands in the header Authorization.
	Credential string
	// Warning is what the caller is to be told of its credential; empty is nothing.
	Warning string
	// As is whom the caller wants to act as; nil is itself.
	As *Impersonation
}

// Extra is one value of a user's extra information.
type Extra struct{ Key, Value string }

// Identifier reads who calls. The zero value knows no certificates and no front proxies.
type Identifier struct {
	// Clients tells the cluster's own authorities, of clients' certificates, as they are now; nil is none.
	Clients func() *x509.CertPool
	// Others tells further authorities of users' certificates as they are now, which cannot give the names of the cluster's own parts; nil is none.
	Others func() *x509.CertPool
	// Proxy knows front proxies, which speak for others; nil knows none.
	Proxy *FrontProxy
	// Expiration observes how many seconds the certificates of callers are still good; nil observes nothing.
	Expiration prometheus.Observer
}

// Of returns the caller of a request: whom a front proxy names, else the subject of its certificate, else the holder of its token
// or password, else the anonymous user. A certificate that is not good is an error, unless there is a token to judge.
func (i Identifier) Of(r *http.Request) (Caller, error) {
	caller, err := i.caller(r)
	if err != nil {
		return Caller{}, err
	}
	caller.As = impersonation(r.Header)
	return caller, nil
}

func (i Identifier) caller(r *http.Request) (Caller, error) {
	var bad error
	if shown(r.TLS) {
		caller, ok, err := i.certified(r)
		if ok {
			return caller, nil
		}
		bad = err
	}
	caller, ok, err := holder(r)
	switch {
	case err != nil:
		return caller, err
	case ok && (bad == nil || !caller.password()):
		return caller, nil
	}
	anonymous := nobody()
	anonymous.Warning = caller.Warning
	return anonymous, bad
}

// certified returns whom the certificate proves. Of a front proxy's and a client's, one that is good is enough.
func (i Identifier) certified(r *http.Request) (caller Caller, ok bool, err error) {
	var bad []error
	if i.Proxy != nil {
		caller, ok, err := i.Proxy.caller(r)
		if ok {
			return caller, true, nil
		}
		bad = append(bad, err)
	}
	if i.Clients != nil || i.Others != nil {
		caller, ok, err := i.client(r)
		if ok {
			return caller, true, nil
		}
		bad = append(bad, err)
	}
	return Caller{}, false, errors.Join(bad...)
}

// spaced is Kubernetes' warning of a token that does not count, for there is more than one space before it.
const spaced = "the provided Authorization header contains extra space before the bearer token, and is ignored"

// holder returns the holder of a token or password. Of a token with too much space before it there is only the warning.
func holder(r *http.Request) (caller Caller, ok bool, err error) {
	if scheme, credential, ok := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " "); ok {
		for _, known := range []string{"Bearer", "Basic"} {
			if !strings.EqualFold(scheme, known) {
				continue
			}
			if known == "Bearer" && strings.HasPrefix(credential, " ") {
				caller.Warning = spaced
				continue
			}
			credential = strings.TrimSpace(credential)
			if !printable(credential) {
				return Caller{}, false, errors.New("the credential is not printable ASCII")
			}
			return Caller{Credential: known + " " + credential}, true, nil
		}
	}
	token, ok, err := websocketToken(r)
	caller.Credential = "Bearer " + token
	return caller, ok, err
}

func nobody() Caller { return Caller{User: Anonymous, Groups: []string{unauthenticated}} }

// Metadata says who calls. Nothing of the client's own headers is in it but the credential, and whom to impersonate.
func (c Caller) Metadata() metadata.MD {
	md := metadata.MD{}
	if c.Credential != "" {
		md["authorization"] = []string{c.Credential}
		if c.password() {
			md[userKey], md[groupKey] = []string{Anonymous}, []string{unauthenticated}
		}
	} else {
		form := c.form()
		md[userKey+form] = []string{c.User}
		if len(c.Groups) > 0 {
			md[groupKey+form] = c.Groups
		}
		if c.UID != "" {
			md[uidKey+form] = []string{c.UID}
		}
		for _, e := range c.Extra {
			md.Append(extraKey, pair(e))
		}
	}
	c.As.into(md)
	return md
}

// password reports whether the credential is a password, which counts for nothing where nobody verifies passwords.
func (c Caller) password() bool { return strings.HasPrefix(c.Credential, "Basic ") }

// binary ends the keys of values that gRPC carries as bytes.
const binary = "-bin"

// form is the ending of the keys for names as these.
func (c Caller) form() string {
	if printable(c.User) && printable(c.UID) && !slices.ContainsFunc(c.Groups, func(group string) bool { return !printable(group) }) {
		return ""
	}
	return binary
}

func pair(e Extra) string { return url.QueryEscape(e.Key) + "=" + url.QueryEscape(e.Value) }

// websocketToken finds a token among the offered subprotocols.
func websocketToken(r *http.Request) (token string, ok bool, err error) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return "", false, nil
	}
	for _, line := range r.Header.Values("Sec-Websocket-Protocol") {
		for offered := range strings.SplitSeq(line, ",") {
			encoded, found := strings.CutPrefix(strings.TrimSpace(offered), tokenProtocol)
			if !found {
				continue
			}
			data, err := base64.RawURLEncoding.DecodeString(encoded)
			if err != nil || len(data) == 0 || !printable(string(data)) {
				return "", false, errors.New("the bearer token among the subprotocols is malformed")
			}
			return string(data), true, nil
		}
	}
	return "", false, nil
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r > 0x7e })
}
