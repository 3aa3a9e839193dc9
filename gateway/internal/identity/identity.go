// Package identity reads who calls from a request's credentials and says so
// to the services behind the gateway. It verifies certificates only (TLS has);
// tokens are the API server's to judge.
package identity

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"google.golang.org/grpc/metadata"
)

// Metadata keys by which the gateway says for whom it calls. The API server
// believes them from gateways only.
const (
	userKey  = "howdah-user"
	groupKey = "howdah-group"
)

// Names of the caller without credentials.
const (
	Anonymous       = "system:anonymous"
	unauthenticated = "system:unauthenticated"
)

// tokenProtocol offers a bearer token where a browser can set no header: as
// a WebSocket subprotocol, base64url without padding.
const tokenProtocol = "base64url.bearer.authorization.k8s.io."

// Caller is who calls. With a Token, User and Groups are unknown.
type Caller struct {
	User   string
	Groups []string
	Token  string
}

// Of returns the caller of a request: its verified certificate, else its
// bearer token, else the anonymous user.
func Of(r *http.Request) (Caller, error) {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		subject := r.TLS.PeerCertificates[0].Subject
		for _, name := range append([]string{subject.CommonName}, subject.Organization...) {
			if !printable(name) {
				return Caller{}, errors.New("the certificate's subject is not printable ASCII")
			}
		}
		if subject.CommonName != "" {
			return Caller{User: subject.CommonName, Groups: subject.Organization}, nil
		}
	}
	if scheme, token, ok := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " "); ok && strings.EqualFold(scheme, "bearer") {
		if token = strings.TrimSpace(token); token != "" {
			if !printable(token) {
				return Caller{}, errors.New("the bearer token is not printable ASCII")
			}
			return Caller{Token: token}, nil
		}
	}
	if token, ok, err := websocketToken(r); ok || err != nil {
		return Caller{Token: token}, err
	}
	return Caller{User: Anonymous, Groups: []string{unauthenticated}}, nil
}

// Verified reports whether the gateway itself has proof of the name.
func (c Caller) Verified() bool { return c.Token == "" && c.User != Anonymous }

// Metadata says who calls. Nothing of the client's own headers is in it but the token.
func (c Caller) Metadata() metadata.MD {
	if c.Token != "" {
		return metadata.Pairs("authorization", "Bearer "+c.Token)
	}
	md := metadata.MD{userKey: {c.User}}
	if len(c.Groups) > 0 {
		md[groupKey] = c.Groups
	}
	return md
}

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
