package route

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"howdah.dev/kit/object"
)

// RedirectAnnotation of an Ingress switches the redirection of plain HTTP to HTTPS, for hosts with TLS, off ("false") or on ("true", the default).
const RedirectAnnotation = "ingress.howdah.dev/https-redirect"

// Objects is where a builder finds what Ingresses name.
type Objects interface {
	Service(namespace, name string) (*corev1.Service, bool)
	// Slices are the EndpointSlices of a Service.
	Slices(namespace, service string) []*discoveryv1.EndpointSlice
	// Secret finds Secrets of the type kubernetes.io/tls.
	Secret(namespace, name string) (*corev1.Secret, bool)
}

// Builder makes tables. From one to the next it keeps endpoints, and certificates that are parsed already. It is for one goroutine.
type Builder struct {
	endpoints map[netip.AddrPort]*Endpoint
	pairs     map[string]*pair
}

// Build makes the table of the Ingresses that are of the classes.
//
// Where two claim the same host and path, the older one has it; of the same age, the first by namespace and name. now tells which certificates are out of date.
func (b *Builder) Build(all []*networkingv1.Ingress, classes Classes, objects Objects, now time.Time) *Table {
	mine := slices.DeleteFunc(slices.Clone(all), func(i *networkingv1.Ingress) bool { return !classes.Own(i) })
	slices.SortFunc(mine, func(a, b *networkingv1.Ingress) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	work := &work{
		builder: b, objects: objects, now: now, backends: map[backendKey]*Backend{}, endpoints: map[netip.AddrPort]*Endpoint{}, pairs: map[string]*pair{},
		table: &Table{
			exact: map[string]*host{}, wildcard: map[string]*host{}, certificates: newCertificates(),
			Ingresses: map[string]bool{}, Faults: slices.Clone(classes.faults),
		},
	}
	for _, i := range mine {
		work.ingress(i)
	}
	b.endpoints, b.pairs = work.endpoints, work.pairs
	return work.table
}

// work is one build.
type work struct {
	builder   *Builder
	objects   Objects
	now       time.Time
	table     *Table
	backends  map[backendKey]*Backend
	endpoints map[netip.AddrPort]*Endpoint
	pairs     map[string]*pair
}

func (w *work) ingress(i *networkingv1.Ingress) {
	w.table.Ingresses[object.KeyOf(i)] = true
	f := &faults{about: i, list: &w.table.Faults, seen: map[string]bool{}}
	secure := w.secure(i, f)
	var fallback *Route
	if d := i.Spec.DefaultBackend; d != nil {
		fallback = &Route{Namespace: i.Namespace, Ingress: i.Name, Backend: w.backend(i.Namespace, d, f), secure: secure}
		if w.table.fallback == nil {
			w.table.fallback = fallback
			w.table.Routes++
		}
	}
	for _, rule := range i.Spec.Rules {
		h := w.host(rule.Host)
		if fallback != nil && h.fallback == nil {
			own := *fallback
			own.Host = rule.Host
			h.fallback = &own
			w.table.Routes++
		}
		if rule.HTTP == nil {
			continue
		}
		for n := range rule.HTTP.Paths {
			p := &rule.HTTP.Paths[n]
			r := &Route{Namespace: i.Namespace, Ingress: i.Name, Host: rule.Host, Path: p.Path, Type: pathType(p), secure: secure}
			if had := h.claim(r); had != nil {
				f.add(ReasonConflict, "%s/%s has the path %q of the host %q already: it is not served from here", had.Namespace, had.Ingress, p.Path, rule.Host)
				continue
			}
			r.Backend = w.backend(i.Namespace, &p.Backend, f)
			w.table.Routes++
		}
	}
}

// pathType is that of a path; what is left to implementations is a prefix here.
func pathType(p *networkingv1.HTTPIngressPath) networkingv1.PathType {
	if p.PathType != nil && *p.PathType == networkingv1.PathTypeExact {
		return networkingv1.PathTypeExact
	}
	return networkingv1.PathTypePrefix
}

// claim files a route by its path and returns nil, or who has the path already.
func (h *host) claim(r *Route) *Route {
	path := canonical(r.Path)
	if r.Type == networkingv1.PathTypeExact {
		if had := h.exact[path]; had != nil {
			return had
		}
		h.exact[path] = r
		return nil
	}
	at := &h.prefixes
	for _, element := range elements(path) {
		if at.children == nil {
			at.children = map[string]*node{}
		}
		if at.children[element] == nil {
			at.children[element] = &node{}
		}
		at = at.children[element]
	}
	if at.route != nil {
		return at.route
	}
	at.route = r
	return nil
}

// host returns the rules of a host, as written in a rule.
func (w *work) host(name string) *host {
	if name == "" {
		if w.table.any == nil {
			w.table.any = &host{exact: map[string]*Route{}}
		}
		return w.table.any
	}
	hosts := w.table.exact
	if domain, ok := strings.CutPrefix(name, "*."); ok {
		hosts, name = w.table.wildcard, domain
	}
	if hosts[name] == nil {
		hosts[name] = &host{exact: map[string]*Route{}}
	}
	return hosts[name]
}
