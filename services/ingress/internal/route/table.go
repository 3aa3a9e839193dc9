// Package route decides which endpoints a request goes to: from Ingresses and what they name it makes a table, and looks requests up in it.
// It does no I/O.
package route

import (
	"crypto/tls"
	"strings"
	"sync/atomic"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
)

// Table is what all Ingresses of a class say together. It is never changed; only what its endpoints count is.
type Table struct {
	exact, wildcard map[string]*host // by name; that of a wildcard is without "*."
	any             *host            // rules without a host
	fallback        *Route           // of the oldest Ingress with a default backend; nil: none
	certificates    certificates

	// Routes is the number of hosts and paths that lead somewhere, default backends included.
	Routes int
	// Ingresses are those that the table is made of, as "namespace/name".
	Ingresses map[string]bool
	// Faults are what is wrong with them, in order.
	Faults []Fault
}

// Route is where one host and path lead.
type Route struct {
	Namespace, Ingress string
	// Host is as in the rule, "" for all; Path likewise, "" for a default backend.
	Host, Path string
	Type       networkingv1.PathType
	Backend    *Backend
	secure     *names // whose plain HTTP is sent on to HTTPS
}

// Redirects reports whether a plain HTTP request for a host is to be sent on to HTTPS: where the Ingress has TLS for it, unless an annotation says otherwise.
func (r *Route) Redirects(name string) bool { return r.secure.has(name) }

// Protocol is how a backend is spoken to.
type Protocol string

// The protocols of backends.
const (
	HTTP  Protocol = "http"  // HTTP/1.1, with upgrades
	H2C   Protocol = "h2c"   // HTTP/2 without TLS
	HTTPS Protocol = "https" // HTTP/1.1 or HTTP/2 over TLS
)

// Backend is a port of a Service.
type Backend struct {
	Namespace, Service, Port string
	Protocol                 Protocol
	// Sticky is the Service's session affinity ClientIP.
	Sticky bool
	// Endpoints are those that may be asked, sorted by address.
	Endpoints []*Endpoint
	// Problem says why the backend cannot have endpoints; "" where it can.
	Problem string
	reason  string // the problem's, for events
}

// Endpoint is one address of a backend. It stays the same from table to table as long as it is in use, so that what it counts does, too.
type Endpoint struct {
	Address string // host:port
	// Active counts the requests that the endpoint answers now.
	Active atomic.Int64
	// rested is when the endpoint may be asked again (Unix nanoseconds) after it could not be connected to.
	rested atomic.Int64
}

// Rest keeps requests away until a moment, as long as there are other endpoints.
func (e *Endpoint) Rest(until time.Time) { e.rested.Store(until.UnixNano()) }

// Resting reports whether requests should keep away.
func (e *Endpoint) Resting(now time.Time) bool { return now.UnixNano() < e.rested.Load() }

// host is what the rules of one host say.
type host struct {
	exact    map[string]*Route
	prefixes node
	fallback *Route // the default backend of the oldest Ingress with a rule for the host
}

// node is one path element of the prefixes below a host.
type node struct {
	children map[string]*node
	route    *Route
}

// Lookup returns where a request goes, or nil where no rule fits and there is no default backend. name is the request's host without its port, in lower
// case; path is the path as it was sent, percent-encoded.
//
// The nearest host's rules are tried first: the name itself, then the wildcard, then rules without a host. Among the paths of a host an exact one wins, then
// the longest prefix. What no path matches goes to the default backend of an Ingress with a rule for the host, and else to that of the oldest Ingress that has one.
func (t *Table) Lookup(name, path string) *Route {
	path = canonical(path)
	var hosts [3]*host
	hosts[0] = t.exact[name]
	if _, domain, ok := strings.Cut(name, "."); ok {
		hosts[1] = t.wildcard[domain]
	}
	hosts[2] = t.any
	for _, h := range hosts {
		if h == nil {
			continue
		}
		if r := h.match(path); r != nil {
			return r
		}
	}
	for _, h := range hosts {
		if h != nil && h.fallback != nil {
			return h.fallback
		}
	}
	return t.fallback
}

// match returns the route of the exact path, or else of the longest prefix. It takes a step for each element of the path.
func (h *host) match(path string) *Route {
	if r := h.exact[path]; r != nil {
		return r
	}
	at := &h.prefixes
	best := at.route
	for rest := strings.TrimPrefix(path, "/"); rest != "" && len(at.children) > 0; {
		var element string
		element, rest, _ = strings.Cut(rest, "/")
		next := at.children[element]
		if next == nil {
			break
		}
		if at = next; at.route != nil {
			best = at.route
		}
	}
	return best
}

// Certificate returns the certificate for a server name of TLS (in lower case, "" for none), or nil where no Ingress has one.
func (t *Table) Certificate(name string) *tls.Certificate { return t.certificates.find(name) }
