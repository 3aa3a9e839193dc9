package route

import (
	"cmp"
	"net/netip"
	"regexp"
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
	// ConfigMap finds those that certificates of authorities are in; of their data only that need be there.
	ConfigMap(namespace, name string) (*corev1.ConfigMap, bool)
	Namespace(name string) (*corev1.Namespace, bool)
}

// Sources are the objects that a table is made of.
type Sources struct {
	Ingresses []*networkingv1.Ingress
	// Classes are the IngressClasses of the controller.
	Classes  Classes
	Gateways GatewaySources
}

// Builder makes tables. From one to the next it keeps endpoints, and certificates and expressions that are parsed already. It is for one goroutine.
type Builder struct {
	endpoints map[netip.AddrPort]*Endpoint
	kept      kept
}

// kept is what was parsed.
type kept struct {
	pairs       map[string]*pair
	expressions map[string]*regexp.Regexp
	authorities map[string]*authorities
	policies    map[string]*BackendTLS
}

func newKept() kept {
	return kept{map[string]*pair{}, map[string]*regexp.Regexp{}, map[string]*authorities{}, map[string]*BackendTLS{}}
}

// Build makes the table of the Ingresses and Gateways that are of the classes.
//
// Where two claim the same host and path, the older one has it; of the same age, the first by namespace and name. now tells which certificates are out of date.
func (b *Builder) Build(from Sources, objects Objects, now time.Time) *Table {
	mine := slices.DeleteFunc(slices.Clone(from.Ingresses), func(i *networkingv1.Ingress) bool { return !from.Classes.Own(i) })
	slices.SortFunc(mine, older)
	work := &work{
		builder: b, objects: objects, now: now, backends: map[backendKey]*Backend{}, endpoints: map[netip.AddrPort]*Endpoint{}, kept: newKept(),
		table: &Table{
			exact: map[string]*host{}, wildcard: map[string]*host{}, certificates: newCertificates(), listeners: map[int32]*sockets{}, secured: map[*BackendTLS]bool{},
			Ports: map[int32]bool{}, Known: map[string]bool{}, Faults: slices.Clone(from.Classes.faults), Statuses: newStatuses(),
		},
	}
	for _, i := range mine {
		work.ingress(i)
	}
	work.gatewayAPI(from.Gateways)
	b.endpoints, b.kept = work.endpoints, work.kept
	return work.table
}

// older is the order of precedence: by age, then by namespace and name.
func older[T object.Object](a, b T) int {
	return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

// work is one build.
type work struct {
	builder   *Builder
	objects   Objects
	now       time.Time
	table     *Table
	backends  map[backendKey]*Backend
	endpoints map[netip.AddrPort]*Endpoint
	kept      kept
}

func (w *work) ingress(i *networkingv1.Ingress) {
	w.table.Known[Key("Ingress", i.Namespace, i.Name)] = true
	f := &faults{about: i, list: &w.table.Faults, seen: map[string]bool{}}
	secure := w.secure(i, f)
	var fallback *Route
	if d := i.Spec.DefaultBackend; d != nil {
		fallback = &Route{Kind: "Ingress", Namespace: i.Namespace, Name: i.Name, Backend: w.backend(i.Namespace, d, f), secure: secure}
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
			r := &Route{Kind: "Ingress", Namespace: i.Namespace, Name: i.Name, age: i.CreationTimestamp.Time, Host: rule.Host, Path: p.Path, Type: pathType(p), secure: secure}
			if had := h.claim(r); had != nil {
				f.add(ReasonConflict, "%s/%s has the path %q of the host %q already: it is not served from here", had.Namespace, had.Name, p.Path, rule.Host)
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

// claim files an Ingress's route by its path and returns nil, or which one has the path already.
func (h *host) claim(r *Route) *Route {
	at := h.place(r.Path, r.Type)
	if *at != nil {
		return *at
	}
	*at = r
	return nil
}

// place is where the routes of a path are.
func (h *host) place(path string, kind networkingv1.PathType) **Route {
	path = canonical(path)
	at := &h.prefixes
	if kind == networkingv1.PathTypeExact {
		if h.exact == nil {
			h.exact = map[string]*node{}
		}
		if h.exact[path] == nil {
			h.exact[path] = &node{}
		}
		return &h.exact[path].route
	}
	for _, element := range elements(path) {
		if at.children == nil {
			at.children = map[string]*node{}
		}
		if at.children[element] == nil {
			at.children[element] = &node{}
		}
		at = at.children[element]
	}
	return &at.route
}

// host returns the rules of a host, as written in a rule.
func (w *work) host(name string) *host {
	if name == "" {
		if w.table.any == nil {
			w.table.any = &host{}
		}
		return w.table.any
	}
	hosts := w.table.exact
	if domain, ok := strings.CutPrefix(name, "*."); ok {
		hosts, name = w.table.wildcard, domain
	}
	if hosts[name] == nil {
		hosts[name] = &host{}
	}
	return hosts[name]
}
