// Package identity reads who calls from a request's credentials and says so
// to the services behind the gateway. It verifies certificates only (TLS has);
// tokens and passwords are the API server's to judge, and so is whether the
// caller may act as somebody else.
package identity

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/metadata"
)

// Metadata keys by which the gateway says for whom it calls. The API server
// believes them from gateways only.
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
	// As is whom the caller wants to act as; nil is itself.
	As *Impersonation
}

// Extra is one value of a user's extra information.
type Extra struct{ Key, Value string }

// Identifier reads who calls. The zero value knows no front proxies.
type Identifier struct {
	// Proxy knows front proxies, which speak for others; nil knows none.
	Proxy *FrontProxy
	// Expiration observes how many seconds the certificates of callers are still good; nil observes nothing.
	Expiration prometheus.Observer
}

// Of returns the caller of a request: whom a front proxy names, else the subject of its verified certificate, else the
// holder of its token or password, else the anonymous user.
func (i Identifier) Of(r *http.Request) (Caller, error) {
	caller, err := i.caller(r)
	if err != nil {
		return Caller{}, err
	}
	caller.As = impersonation(r.Header)
	return caller, nil
}

func (i Identifier) caller(r *http.Request) (Caller, error) {
	if i.Proxy != nil {
		if caller, ok, err := i.Proxy.caller(r); ok || err != nil {
			return caller, err
		}
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && (i.Proxy == nil || i.Proxy.client(r.TLS)) {
		cert := r.TLS.PeerCertificates[0]
		for _, name := range append([]string{cert.Subject.CommonName}, cert.Subject.Organization...) {
			if !printable(name) {
				return Caller{}, errors.New("the certificate's subject is not printable ASCII")
			}
		}
		if cert.Subject.CommonName != "" {
			if i.Expiration != nil {
				i.Expiration.Observe(time.Until(cert.NotAfter).Seconds())
			}
			sum := sha256.Sum256(cert.Raw)
			return Caller{
				User: cert.Subject.CommonName, Groups: cert.Subject.Organization,
				Extra: []Extra{{credentialID, "X509SHA256=" + hex.EncodeToString(sum[:])}},
			}, nil
		}
	}
	if scheme, credential, ok := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " "); ok {
		credential = strings.TrimSpace(credential)
		for _, known := range []string{"Bearer", "Basic"} {
			if !strings.EqualFold(scheme, known) || credential == "" {
				continue
			}
			if !printable(credential) {
				return Caller{}, errors.New("the credential is not printable ASCII")
			}
			return Caller{Credential: known + " " + credential}, nil
		}
	}
	if token, ok, err := websocketToken(r); ok || err != nil {
		return Caller{Credential: "Bearer " + token}, err
	}
	return nobody(), nil
}

func nobody() Caller { return Caller{User: Anonymous, Groups: []string{unauthenticated}} }

// Metadata says who calls. Nothing of the client's own headers is in it but the credential, and whom to impersonate.
func (c Caller) Metadata() metadata.MD {
	md := metadata.MD{}
	if c.Credential != "" {
		md["authorization"] = []string{c.Credential}
		if strings.HasPrefix(c.Credential, "Basic ") { // where nobody verifies passwords, it counts for nothing
			md[userKey], md[groupKey] = []string{Anonymous}, []string{unauthenticated}
		}
	} else {
		md[userKey] = []string{c.User}
		if len(c.Groups) > 0 {
			md[groupKey] = c.Groups
		}
		if c.UID != "" {
			md[uidKey] = []string{c.UID}
		}
		for _, e := range c.Extra {
			md.Append(extraKey, pair(e))
		}
	}
	c.As.into(md)
	return md
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
