package route

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"howdah.dev/kit/object"
)

// gatewayRoute is an HTTPRoute, a GRPCRoute or a TLSRoute.
type gatewayRoute struct {
	kind      string
	object    object.Object
	spec      *gatewayv1.CommonRouteSpec
	hostnames []string
	// compile makes of the rules what a Gateway does.
	compile func(g *gateways, r *gatewayRoute, of *gateway) *compiled
	// byGateway are the rules as compiled for each Gateway, whose certificate backends may see.
	byGateway   map[*gateway]*compiled
	attachments []*attachment
}

// attachment is one of the parents that a route names, of ours.
type attachment struct {
	ref      gatewayv1.ParentReference
	parent   *parent
	accepted verdict
	at       []*attachedRoute
}

// attachedRoute is a route at one listener.
type attachedRoute struct {
	route      *gatewayRoute
	attachment *attachment
	listener   *listener
	hostnames  []string
}

// routes are those of all kinds, oldest first.
func (g *gateways) routes() []*gatewayRoute {
	var out []*gatewayRoute
	add := func(kind string, o object.Object, spec *gatewayv1.CommonRouteSpec, hostnames []gatewayv1.Hostname, compile func(*gateways, *gatewayRoute, *gateway) *compiled) {
		r := &gatewayRoute{kind: kind, object: o, spec: spec, compile: compile, byGateway: map[*gateway]*compiled{}}
		for _, h := range hostnames {
			r.hostnames = append(r.hostnames, strings.ToLower(string(h)))
		}
		out = append(out, r)
	}
	for _, r := range g.from.HTTPRoutes {
		add("HTTPRoute", r, &r.Spec.CommonRouteSpec, r.Spec.Hostnames, func(g *gateways, of *gatewayRoute, at *gateway) *compiled { return g.httpRoute(of, r, at) })
	}
	for _, r := range g.from.GRPCRoutes {
		add("GRPCRoute", r, &r.Spec.CommonRouteSpec, r.Spec.Hostnames, func(g *gateways, of *gatewayRoute, at *gateway) *compiled { return g.grpcRoute(of, r, at) })
	}
	for _, r := range g.from.TLSRoutes {
		add("TLSRoute", r, &r.Spec.CommonRouteSpec, r.Spec.Hostnames, func(g *gateways, of *gatewayRoute, at *gateway) *compiled { return g.tlsRoute(of, r, at) })
	}
	slices.SortFunc(out, func(a, b *gatewayRoute) int { return cmp.Or(older(a.object, b.object), cmp.Compare(a.kind, b.kind)) })
	return out
}

// attach finds the listeners that a route is to be reached by.
func (g *gateways) attach(r *gatewayRoute) {
	for _, ref := range r.spec.ParentRefs {
		kind := string(ptr.Deref(ref.Kind, "Gateway"))
		p := g.parents[Key(kind, string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(r.object.GetNamespace()))), string(ref.Name))]
		if p == nil || string(ptr.Deref(ref.Group, group)) != group {
			continue // another controller's, or not there
		}
		a := &attachment{ref: ref, parent: p}
		r.attachments = append(r.attachments, a)
		reason, message := string(gatewayv1.RouteReasonNoMatchingParent), "the parent has no listener of that name and port"
		for _, l := range p.listeners {
			if ref.SectionName != nil && *ref.SectionName != l.spec.Name || ref.Port != nil && *ref.Port != l.spec.Port {
				continue
			}
			if !l.allowsKind(r.kind) || !g.allows(ptr.Deref(l.namespaces.From, gatewayv1.NamespacesFromSame), l.namespaces.Selector, p.object.GetNamespace(), r.object.GetNamespace()) {
				if reason == string(gatewayv1.RouteReasonNoMatchingParent) {
					reason, message = string(gatewayv1.RouteReasonNotAllowedByListeners), "no listener allows routes of this kind and namespace"
				}
				continue
			}
			hostnames := intersection(l.hostname, r.hostnames)
			if len(hostnames) == 0 {
				reason, message = string(gatewayv1.RouteReasonNoMatchingListenerHostname), "no hostname of the route is one of a listener"
				continue
			}
			at := &attachedRoute{route: r, attachment: a, listener: l, hostnames: hostnames}
			a.at = append(a.at, at)
			l.routes = append(l.routes, at)
		}
		if len(a.at) == 0 {
			a.accepted.refuse(reason, "%s", message)
		}
	}
}

func (l *listener) allowsKind(kind string) bool {
	return slices.ContainsFunc(l.kinds, func(k gatewayv1.RouteGroupKind) bool { return string(k.Kind) == kind })
}

// intersection returns the hostnames that a route has at a listener.
func intersection(listener string, route []string) []string {
	if len(route) == 0 {
		return []string{listener}
	}
	var out []string
	for _, h := range route {
		if both, ok := within(listener, h); ok && !slices.Contains(out, both) {
			out = append(out, both)
		}
	}
	return out
}

// reasonKinds is why a route is not accepted that would share hostnames with one of another kind.
const reasonKinds = "Conflicted"

// settle takes routes from listeners where older ones of another kind have their hostnames, and counts those that are left.
func (g *gateways) settle() {
	for _, one := range g.all {
		for _, p := range one.parents {
			for _, l := range p.listeners {
				l.settle()
			}
		}
	}
}

func (l *listener) settle() {
	var kept []*attachedRoute
	mixed := slices.ContainsFunc(l.routes, func(a *attachedRoute) bool { return a.route.kind != l.routes[0].route.kind })
	for _, a := range l.routes {
		n := -1
		if mixed {
			n = slices.IndexFunc(kept, func(b *attachedRoute) bool {
				return a.route.kind != b.route.kind && slices.ContainsFunc(a.hostnames, func(h string) bool {
					return slices.ContainsFunc(b.hostnames, func(other string) bool { _, both := within(h, other); return both })
				})
			})
		}
		if n < 0 {
			kept = append(kept, a)
			continue
		}
		a.attachment.at = slices.DeleteFunc(a.attachment.at, func(b *attachedRoute) bool { return a == b })
		if len(a.attachment.at) == 0 {
			a.attachment.accepted.refuse(reasonKinds, "the %s %s has the hostnames at the listener %q", kept[n].route.kind, object.KeyOf(kept[n].route.object), l.spec.Name)
		}
	}
	l.routes = kept
	seen := map[*gatewayRoute]bool{}
	for _, a := range kept {
		seen[a.route] = true
	}
	l.attached = int32(len(seen))
}

// serve files a route's rules at its listeners, and decides its status.
func (g *gateways) serve(r *gatewayRoute) {
	if len(r.attachments) == 0 {
		return
	}
	g.table.Known[Key(r.kind, r.object.GetNamespace(), r.object.GetName())] = true
	key := object.KeyOf(r.object)
	for _, a := range r.attachments {
		c := r.byGateway[a.parent.of]
		if c == nil {
			c = r.compile(g, r, a.parent.of)
			r.byGateway[a.parent.of] = c
		}
		accepted := a.accepted
		if c.rules > 0 && len(c.dropped) == c.rules {
			accepted.refuse(string(gatewayv1.RouteReasonUnsupportedValue), "%s", strings.Join(c.dropped, "; "))
		}
		generation := r.object.GetGeneration()
		conditions := []metav1.Condition{
			accepted.condition(string(gatewayv1.RouteConditionAccepted), string(gatewayv1.RouteReasonAccepted), generation),
			c.refs.condition(string(gatewayv1.RouteConditionResolvedRefs), string(gatewayv1.RouteReasonResolvedRefs), generation),
		}
		if n := len(c.dropped); n > 0 && n < c.rules {
			conditions = append(conditions, isTrue(string(gatewayv1.RouteConditionPartiallyInvalid), string(gatewayv1.RouteReasonUnsupportedValue), "Dropped Rule: "+strings.Join(c.dropped, "; "), generation))
		}
		g.fault(r.object, conditions)
		g.table.Statuses.Routes[r.kind][key] = append(g.table.Statuses.Routes[r.kind][key], gatewayv1.RouteParentStatus{
			ParentRef: a.ref, ControllerName: gatewayv1.GatewayController(g.from.Controller), Conditions: conditions,
		})
		if !accepted.ok() {
			continue
		}
		for _, at := range a.at {
			if at.listener.served != nil {
				g.file(at, c)
			}
		}
	}
}

// file puts what a route does at a listener into the table.
func (g *gateways) file(at *attachedRoute, c *compiled) {
	r, l := at.route, at.listener.served
	if c.stream != nil {
		sockets := g.table.sockets(l.Port)
		for _, hostname := range at.hostnames {
			sockets.streams[hostname] = append(sockets.streams[hostname], &Stream{Namespace: r.object.GetNamespace(), Name: r.object.GetName(), Rule: c.stream, Ends: !l.passes, listener: l})
			g.table.Routes++
		}
		return
	}
	for _, hostname := range at.hostnames {
		h := g.host(hostname)
		g.table.deep = g.table.deep || strings.HasPrefix(hostname, "*.")
		for n := range c.matches {
			m := &c.matches[n]
			one := &Route{
				Kind: r.kind, Namespace: r.object.GetNamespace(), Name: r.object.GetName(), Host: hostname, Path: m.path, Type: m.kind, Rule: m.rule,
				listener: l, conditions: m.conditions, age: r.object.GetCreationTimestamp().Time, order: n,
			}
			place := (**Route)(nil)
			if m.expression != nil {
				place = h.pattern(m.path, m.expression)
			} else {
				place = h.place(m.path, m.kind)
			}
			one.file(place)
			g.table.Routes++
		}
	}
}
