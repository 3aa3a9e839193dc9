package gateway

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/gateway/internal/identity"
	"howdah.dev/gateway/internal/socket"
)

// errForged answers what a page of another site has a browser ask.
var errForged = apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("a page of another site may not use the browser's certificate"))

// forged reports whether a page of another site makes the request with what a browser adds unasked: a client's certificate. A
// page cannot read the answers, but what changes something, or opens a WebSocket, would be done. Clients that are no browsers
// send none of the headers, or an Origin that says nothing with their WebSockets, as Kubernetes' own tests do.
func forged(r *http.Request, caller identity.Caller) bool {
	if caller.Credential != "" || caller.User == identity.Anonymous {
		return false // no page of another site knows a token
	}
	if !socket.Wanted(r) {
		return http.NewCrossOriginProtection().Check(r) != nil
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site != "same-origin" && site != "none"
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	return strings.HasPrefix(r.UserAgent(), "Mozilla/") && r.Header.Get("Origin") != "" && (err != nil || origin.Host != r.Host)
}
