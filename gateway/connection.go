package gateway

import (
	"math/rand/v2"
	"net/http"
	"strings"
)

// Connections says what clients are told of their connections, with the meanings of kube-apiserver's flags.
type Connections struct {
	// StrictTransportSecurity are the directives of that header (RFC 6797, section 6.1), as max-age=31536000; none sends no header.
	StrictTransportSecurity []string
	// GoawayChance is the share of requests over HTTP/2 after which the client is asked to connect anew, so that clients spread over the gateways behind
	// a load balancer again; 0 asks nobody.
	GoawayChance float64
}

// announce sets the headers of an answer to a request.
func (c Connections) announce(h http.Header, r *http.Request) {
	if len(c.StrictTransportSecurity) > 0 {
		h.Set("Strict-Transport-Security", strings.Join(c.StrictTransportSecurity, "; "))
	}
	if c.GoawayChance > 0 && r.ProtoMajor == 2 && rand.Float64() < c.GoawayChance {
		h.Set("Connection", "close") // over HTTP/2, net/http sends GOAWAY, and ends the connection once nothing is under way
	}
}
