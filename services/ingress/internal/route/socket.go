package route

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
)

// Listener is a listener of a Gateway as it is served.
type Listener struct {
	// Gateway is the key of the Gateway, Owner that of the Gateway or of the ListenerSet that has the listener.
	Gateway, Owner, Name string
	Port                 int32
	// Hostname is in lower case, "" for all.
	Hostname string
	// Certificates are those that it is known by.
	Certificates []*tls.Certificate
	// Validation is what is asked of clients, nil for nothing.
	Validation *Validation

	secure   bool
	passes   bool // TLS is left to the backends
	nearer   []string
	siblings []*Listener // those of the Gateway at the port, the nearest first
}

// Validation is how clients prove who they are.
type Validation struct {
	Roots *x509.CertPool
	// Insecure lets clients in that cannot.
	Insecure bool
}

// takes reports whether a request for one of the listener's routes is the listener's: a nearer one of the same Gateway goes before it.
func (l *Listener) takes(q *Query) bool {
	if l.Port != q.Port {
		return false
	}
	for _, hostname := range l.nearer {
		if covers(hostname, q.Host) {
			return false
		}
	}
	return true
}

// For returns the listener of the same Gateway and port that a name is for, nil for none.
func (l *Listener) For(name string) *Listener {
	for _, s := range l.siblings {
		if covers(s.Hostname, name) {
			return s
		}
	}
	return nil
}

// sockets are the listeners of all Gateways at one port.
type sockets struct {
	byName map[string][]*Listener // by hostname, those that end TLS
	// streams are TLSRoutes, by hostname, the first of each before the others.
	streams map[string][]*Stream
}

// Stream is where connections of TLS go as they are, or as what is within.
type Stream struct {
	Namespace, Name string
	Rule            *Rule
	// Ends says that TLS ends here.
	Ends     bool
	listener *Listener
}

// Listener returns the one that the stream is attached to.
func (s *Stream) Listener() *Listener { return s.listener }

func (t *Table) sockets(port int32) *sockets {
	s := t.listeners[port]
	if s == nil {
		s = &sockets{byName: map[string][]*Listener{}, streams: map[string][]*Stream{}}
		t.listeners[port] = s
	}
	return s
}

// Streams reports whether connections at a port have to be asked for whom they are before TLS begins.
func (t *Table) Streams(port int32) bool {
	return t.listeners[port] != nil && len(t.listeners[port].streams) > 0
}

// Identity returns the certificate for a server name of TLS (in lower case, "" for none) at a port, and the listener of a Gateway that has it. The nearest
// hostname decides. Without one both are nil.
func (t *Table) Identity(port int32, name string) (*Listener, *tls.Certificate) {
	_, l, c := t.nearest(port, name)
	return l, c
}

// Stream returns where a connection for a server name goes, nil where it is one of HTTP.
func (t *Table) Stream(port int32, name string) *Stream {
	s, _, _ := t.nearest(port, name)
	return s
}

// nearest asks the hostnames that stand for a server name, from the name itself to that for all, and returns the first that leads somewhere.
func (t *Table) nearest(port int32, name string) (*Stream, *Listener, *tls.Certificate) {
	at := t.listeners[port]
	ask := func(hostname string, own *tls.Certificate) (*Stream, *Listener, *tls.Certificate) {
		if at != nil {
			for _, s := range at.streams[hostname] {
				if s.listener.takes(&Query{Port: port, Host: name}) {
					return s, nil, nil
				}
			}
		}
		if own != nil {
			return nil, nil, own
		}
		if at != nil {
			if l, c := known(at.byName[hostname], name); l != nil {
				return nil, l, c
			}
		}
		return nil, nil, nil
	}
	var ingress certificates
	if port == SecurePort {
		ingress = t.certificates
	}
	s, l, c := ask(name, ingress.exact[name])
	if at != nil || port == SecurePort {
		first := true
		for domain := range domains(name) {
			if s != nil || c != nil {
				break
			}
			var own *tls.Certificate
			if first {
				own, first = ingress.wildcard[domain], false
			}
			if s, l, c = ask("*."+domain, own); at == nil {
				break
			}
		}
	}
	if s == nil && c == nil {
		s, l, c = ask("", ingress.any)
	}
	return s, l, c
}

// known returns the listener that has a certificate for a name, or else the first one with any.
func known(all []*Listener, name string) (*Listener, *tls.Certificate) {
	for _, l := range all {
		for _, c := range l.Certificates {
			if c.Leaf.VerifyHostname(name) == nil {
				return l, c
			}
		}
	}
	for _, l := range all {
		if len(l.Certificates) > 0 {
			return l, l.Certificates[0]
		}
	}
	return nil, nil
}

// Misdirected reports whether a request over TLS is for another listener than its connection: the client believed that both are one, and must ask anew.
func (t *Table) Misdirected(r *Route, q *Query, serverName string) bool {
	if r != nil && r.listener == nil {
		return false
	}
	var of *Listener
	if r != nil {
		of = r.listener
	} else if of, _ = t.Identity(q.Port, serverName); of == nil {
		return false
	}
	return of.For(q.Host) != of.For(strings.ToLower(serverName))
}
