// Package route decides which endpoints a request goes to: from Ingresses, Gateways with their routes, and what they name it makes a table, and looks requests up in it.
// It does no I/O.
package route

import (
	"cmp"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
)

// The ports that Ingresses are served at. Listeners of Gateways share them, and name others beside.
const (
	PlainPort  int32 = 80
	SecurePort int32 = 443
)

// Table is what all Ingresses, and all Gateways with their routes, of the classes say together. It is never changed; only what its endpoints count is.
type Table struct {
	exact, wildcard map[string]*host // by name; that of a wildcard is without "*."
	any             *host            // rules without a host
	deep            bool             // a wildcard of a Gateway's is there, which stands for several labels
	fallback        *Route           // of the oldest Ingress with a default backend; nil: none
	certificates    certificates     // of Ingresses
	listeners       map[int32]*sockets
	secured         map[*BackendTLS]bool

	// Ports are those that Gateways name beside the two of Ingresses, and whether TLS is spoken there.
	Ports map[int32]bool
	// Routes is the number of hosts and paths that lead somewhere, default backends included.
	Routes int
	// Known are the objects whose routes the table has, as "Kind/namespace/name".
	Known map[string]bool
	// Faults are what is wrong with them, in order.
	Faults []Fault
	// Statuses are those of Gateways and what belongs to them.
	Statuses Statuses
}

// Route is where one host and path lead.
type Route struct {
	// Kind is that of the object whose rule it is: Ingress, HTTPRoute or GRPCRoute.
	Kind, Namespace, Name string
	// Host is as in the rule, "" for all; Path likewise, "" for a default backend.
	Host, Path string
	Type       networkingv1.PathType
	// Backend is where an Ingress leads, nil for other kinds.
	Backend *Backend
	// Rule is what a route of a Gateway does, nil for Ingresses.
	Rule   *Rule
	secure *names // whose plain HTTP is sent on to HTTPS

	listener   *Listener // nil: both ports of Ingresses
	conditions *conditions
	age        time.Time
	order      int    // among the matches of its object
	next       *Route // the same host and path, lower in precedence
}

// Listener returns the listener of a Gateway that the route is attached to, nil for an Ingress's.
func (r *Route) Listener() *Listener { return r.listener }

// Redirects reports whether a plain HTTP request for a host is to be sent on to HTTPS: where the Ingress has TLS for it, unless an annotation says otherwise.
func (r *Route) Redirects(name string) bool { return r.secure.has(name) }

// before says which of two routes for the same host and path is asked first.
func (r *Route) before(other *Route) bool {
	a, b := r.conditions, other.conditions
	if n := cmp.Or(-cmp.Compare(a.weight(), b.weight()), r.age.Compare(other.age), cmp.Compare(r.Namespace, other.Namespace), cmp.Compare(r.Name, other.Name), cmp.Compare(r.Kind, other.Kind)); n != 0 {
		return n < 0
	}
	return r.order < other.order
}

// file puts a route among those of the same host and path.
func (r *Route) file(first **Route) {
	at := first
	for *at != nil && !r.before(*at) {
		at = &(*at).next
	}
	r.next, *at = *at, r
}

// fit returns the first of the routes of a host and path that takes a request. deep: the host's name is further below the domain than one label.
func (r *Route) fit(q *Query, deep bool) *Route {
	for ; r != nil; r = r.next {
		if r.listener == nil {
			if !deep && (q.Port == PlainPort || q.Port == SecurePort) {
				return r
			}
		} else if r.listener.takes(q) && r.conditions.hold(q) {
			return r
		}
	}
	return nil
}

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
	// TLS is how the endpoints prove who they are, where a policy says so.
	TLS *BackendTLS
	// Sticky is the Service's session affinity ClientIP.
	Sticky bool
	// Endpoints are those that may be asked, sorted by address.
	Endpoints []*Endpoint
	// Problem says why the backend cannot have endpoints; "" where it can.
	Problem string
	reason  string // the problem's, for events

	portName string // of the Service's port, "" where it has none
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
	exact    map[string]*node
	patterns []pattern // longest first
	prefixes node
	fallback *Route // the default backend of the oldest Ingress with a rule for the host
}

// node is one path element of the prefixes below a host.
type node struct {
	children map[string]*node
	route    *Route
}

// Query is what is known of a request.
type Query struct {
	// Port is the one that the request came to.
	Port int32
	// Host is the request's without its port, in lower case; Path is as it was sent, percent-encoded.
	Host, Path string
	Method     string
	Header     http.Header
	RawQuery   string

	values map[string]string // of the query, once they were asked for
}

// Find returns where a request goes, or nil where no rule fits and there is no default backend.
//
// The nearest host's rules are tried first: the name itself, then the wildcards, the longest first, then rules without a host. Among the paths of a host an
// exact one wins, then regular expressions, then the longest prefix. Of routes for the same host and path that with the most conditions is asked first. What no
// path matches goes to the default backend of an Ingress with a rule for the host, and else to that of the oldest Ingress that has one.
func (t *Table) Find(q *Query) *Route {
	path := canonical(q.Path)
	var hosts [3]*host
	hosts[0] = t.exact[q.Host]
	_, domain, ok := strings.Cut(q.Host, ".")
	if ok {
		hosts[1] = t.wildcard[domain]
	}
	hosts[2] = t.any
	for n, h := range hosts {
		if n == 2 && t.deep {
			if r := t.below(domain, path, q); r != nil {
				return r
			}
		}
		if h == nil {
			continue
		}
		if r := h.match(path, q, false); r != nil {
			return r
		}
	}
	if q.Port != PlainPort && q.Port != SecurePort {
		return nil
	}
	for _, h := range hosts {
		if h != nil && h.fallback != nil {
			return h.fallback
		}
	}
	return t.fallback
}

// below asks the wildcards for domains that the host is several labels below.
func (t *Table) below(domain, path string, q *Query) *Route {
	for {
		_, above, ok := strings.Cut(domain, ".")
		if !ok {
			return nil
		}
		domain = above
		if h := t.wildcard[domain]; h != nil {
			if r := h.match(path, q, true); r != nil {
				return r
			}
		}
	}
}

// match returns the route of the exact path, or else of the longest prefix. It takes a step for each element of the path.
func (h *host) match(path string, q *Query, deep bool) *Route {
	if n := h.exact[path]; n != nil {
		if r := n.route.fit(q, deep); r != nil {
			return r
		}
	}
	for n := range h.patterns {
		if p := &h.patterns[n]; p.expression.MatchString(path) {
			if r := p.route.fit(q, deep); r != nil {
				return r
			}
		}
	}
	return h.prefixes.match(strings.TrimPrefix(path, "/"), q, deep)
}

// match asks the longer prefixes first.
func (n *node) match(rest string, q *Query, deep bool) *Route {
	if rest != "" && len(n.children) > 0 {
		element, rest, _ := strings.Cut(rest, "/")
		if child := n.children[element]; child != nil {
			if r := child.match(rest, q, deep); r != nil {
				return r
			}
		}
	}
	return n.route.fit(q, deep)
}
