package identity

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"
	authenticationv1 "k8s.io/api/authentication/v1"
)

// Metadata keys of impersonation; values are escaped as in a query.
const (
	asUserKey  = "howdah-as-user"
	asGroupKey = "howdah-as-group"
	asUIDKey   = "howdah-as-uid"
	asExtraKey = "howdah-as-extra"
)

// Impersonation is whom a caller wants to act as. Whether it may, and whether what it says is complete, is for the API server.
type Impersonation struct {
	User, UID string
	Groups    []string
	Extra     []Extra
}

// impersonation reads the Impersonate headers; nil says that there are none.
func impersonation(h http.Header) *Impersonation {
	as := &Impersonation{
		User: h.Get(authenticationv1.ImpersonateUserHeader), UID: h.Get(authenticationv1.ImpersonateUIDHeader),
		Groups: h.Values(authenticationv1.ImpersonateGroupHeader),
	}
	as.Extra = extras(h, authenticationv1.ImpersonateUserExtraHeaderPrefix)
	if as.User == "" && as.UID == "" && len(as.Groups) == 0 && len(as.Extra) == 0 {
		return nil
	}
	return as
}

// extras returns what the headers with the prefix say, in the order of their names. The rest of a name is the key in lower case,
// escaped as in a path.
func extras(h http.Header, prefix string) (all []Extra) {
	var names []string
	for name := range h {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		key := strings.ToLower(name[len(prefix):])
		if plain, err := url.PathUnescape(key); err == nil {
			key = plain
		}
		for _, value := range h[name] {
			all = append(all, Extra{key, value})
		}
	}
	return all
}

func (as *Impersonation) into(md metadata.MD) {
	if as == nil {
		return
	}
	if as.User != "" {
		md[asUserKey] = []string{url.QueryEscape(as.User)}
	}
	if as.UID != "" {
		md[asUIDKey] = []string{url.QueryEscape(as.UID)}
	}
	for _, group := range as.Groups {
		md.Append(asGroupKey, url.QueryEscape(group))
	}
	for _, e := range as.Extra {
		md.Append(asExtraKey, pair(e))
	}
}
