package route

import (
	"cmp"
	"crypto/tls"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"howdah.dev/kit/object"
)

// gateway is one of ours.
type gateway struct {
	object   *gatewayv1.Gateway
	accepted verdict
	refs     verdict
	insecure bool
	usable   []gatewayv1.GatewayStatusAddress
	address  verdict
	parents  []*parent // itself, and its ListenerSets
	identity *tls.Certificate
}

// parent is what routes attach to: a Gateway or a ListenerSet.
type parent struct {
	kind      string
	of        *gateway
	object    object.Object
	listeners []*listener
}

// listener is one as it is decided about.
type listener struct {
	parent             *parent
	spec               gatewayv1.Listener
	hostname           string
	conflict, accepted verdict
	refs               verdict
	overlaps           bool
	kinds              []gatewayv1.RouteGroupKind
	attached           int32
	served             *Listener // nil: it is not
	routes             []*attachedRoute
	certificates       []*tls.Certificate
	validation         *Validation
	namespaces         *gatewayv1.RouteNamespaces
}

// protocols are those of listeners, and the kinds of routes for them.
var protocols = map[gatewayv1.ProtocolType]struct {
	secure bool
	kinds  []string
}{
	gatewayv1.HTTPProtocolType:  {false, []string{"HTTPRoute", "GRPCRoute"}},
	gatewayv1.HTTPSProtocolType: {true, []string{"HTTPRoute", "GRPCRoute"}},
	gatewayv1.TLSProtocolType:   {true, []string{"TLSRoute"}},
}

// gateway decides about a Gateway and the ListenerSets that are to be part of it.
func (g *gateways) gateway(o *gatewayv1.Gateway, sets []*gatewayv1.ListenerSet) {
	one := &gateway{object: o}
	g.all = append(g.all, one)
	g.addresses(one)
	switch {
	case o.Spec.Infrastructure != nil && o.Spec.Infrastructure.ParametersRef != nil:
		one.accepted.refuse(string(gatewayv1.GatewayReasonInvalidParameters), "this controller takes no parameters: spec.infrastructure.parametersRef cannot act")
	case o.Spec.DefaultScope != "" && o.Spec.DefaultScope != gatewayv1.GatewayDefaultScopeNone:
		one.accepted.refuse(string(gatewayv1.GatewayReasonInvalid), "routes name their Gateways here: spec.defaultScope cannot act")
	}
	g.backendIdentity(one)
	own := g.parent(one, "Gateway", o)
	for _, l := range o.Spec.Listeners {
		own.listeners = append(own.listeners, &listener{parent: own, spec: l})
	}
	for _, set := range sets {
		if !g.admits(one, set) {
			continue
		}
		p := g.parent(one, "ListenerSet", set)
		for _, l := range set.Spec.Listeners {
			p.listeners = append(p.listeners, &listener{parent: p, spec: gatewayv1.Listener(l)})
		}
	}
	var all []*listener
	for _, p := range one.parents {
		all = append(all, p.listeners...)
	}
	for _, l := range all {
		l.hostname = strings.ToLower(string(ptr.Deref(l.spec.Hostname, "")))
		l.namespaces = &gatewayv1.RouteNamespaces{}
		if a := l.spec.AllowedRoutes; a != nil && a.Namespaces != nil {
			l.namespaces = a.Namespaces
		}
		g.supported(l)
	}
	conflicts(all)
	for _, l := range all {
		if l.conflict.ok() && l.accepted.ok() && one.accepted.ok() {
			g.port(l)
		}
		if protocols[l.spec.Protocol].secure {
			g.certify(l)
			g.validate(one, l)
		}
	}
	g.open(one, all)
}

func (g *gateways) parent(of *gateway, kind string, o object.Object) *parent {
	p := &parent{kind: kind, of: of, object: o}
	of.parents = append(of.parents, p)
	g.parents[Key(kind, o.GetNamespace(), o.GetName())] = p
	g.table.Known[Key(kind, o.GetNamespace(), o.GetName())] = true
	return p
}

// addresses finds out which of the proxy's addresses a Gateway has: those that it asks for, or all.
func (g *gateways) addresses(one *gateway) {
	asked := one.object.Spec.Addresses
	if len(asked) == 0 {
		one.usable = g.from.Addresses
	}
	for _, a := range asked {
		kind := ptr.Deref(a.Type, gatewayv1.IPAddressType)
		if kind != gatewayv1.IPAddressType && kind != gatewayv1.HostnameAddressType {
			one.accepted.refuse(string(gatewayv1.GatewayReasonUnsupportedAddress), "addresses of the type %q are not known here", kind)
			continue
		}
		n := slices.IndexFunc(g.from.Addresses, func(have gatewayv1.GatewayStatusAddress) bool {
			return ptr.Deref(have.Type, "") == kind && (a.Value == "" || have.Value == a.Value)
		})
		if n < 0 {
			one.address.refuse(string(gatewayv1.GatewayReasonAddressNotUsable), "%q is no address of this proxy", a.Value)
			continue
		}
		one.usable = append(one.usable, g.from.Addresses[n])
	}
	if len(one.usable) == 0 {
		one.address.refuse(string(gatewayv1.GatewayReasonAddressNotAssigned), "the proxy has not been told its addresses: --publish-address or --publish-service")
	}
}

// supported decides whether a listener asks for what there is.
func (g *gateways) supported(l *listener) {
	protocol, ok := protocols[l.spec.Protocol]
	if !ok {
		l.accepted.refuse(string(gatewayv1.ListenerReasonUnsupportedProtocol), "the protocol %q is none of HTTP, HTTPS and TLS", l.spec.Protocol)
	}
	if t := l.spec.TLS; t != nil && len(t.Options) > 0 {
		l.accepted.refuse(string(gatewayv1.ListenerReasonUnsupportedValue), "tls.options: %q is not known", slices.Sorted(maps.Keys(t.Options))[0])
	}
	l.kinds = []gatewayv1.RouteGroupKind{}
	kindOf := func(kind string) gatewayv1.RouteGroupKind {
		return gatewayv1.RouteGroupKind{Group: ptr.To(gatewayv1.Group(group)), Kind: gatewayv1.Kind(kind)}
	}
	if l.spec.AllowedRoutes == nil || len(l.spec.AllowedRoutes.Kinds) == 0 {
		for _, kind := range protocol.kinds {
			l.kinds = append(l.kinds, kindOf(kind))
		}
		return
	}
	for _, k := range l.spec.AllowedRoutes.Kinds {
		if ptr.Deref(k.Group, group) != group || !slices.Contains(protocol.kinds, string(k.Kind)) {
			l.refs.refuse(string(gatewayv1.ListenerReasonInvalidRouteKinds), "allowedRoutes: %s is no kind of routes for the protocol %s", k.Kind, l.spec.Protocol)
			continue
		}
		if kind := kindOf(string(k.Kind)); !slices.ContainsFunc(l.kinds, func(have gatewayv1.RouteGroupKind) bool { return have.Kind == kind.Kind }) {
			l.kinds = append(l.kinds, kind)
		}
	}
}

// conflicts finds listeners of one Gateway that a request cannot be told apart by. Of two of the same object neither is served; else that of the Gateway, or of the older ListenerSet, is.
func conflicts(all []*listener) {
	for n, a := range all {
		for _, b := range all[n+1:] {
			if a.spec.Port != b.spec.Port {
				continue
			}
			p, q := protocols[a.spec.Protocol], protocols[b.spec.Protocol]
			reason := ""
			switch {
			case a.spec.Protocol != b.spec.Protocol && (p.kinds == nil || q.kinds == nil || p.secure != q.secure || a.hostname == b.hostname):
				reason = string(gatewayv1.ListenerReasonProtocolConflict)
			case a.hostname == b.hostname:
				reason = string(gatewayv1.ListenerReasonHostnameConflict)
			case p.secure:
				if _, both := within(a.hostname, b.hostname); both {
					a.overlaps, b.overlaps = true, true
				}
			}
			if reason == "" {
				continue
			}
			if a.parent == b.parent {
				a.conflict.refuse(reason, "the listener %q has the same port, and requests cannot be told apart", b.spec.Name)
			} else if !a.conflict.ok() {
				continue
			}
			b.conflict.refuse(reason, "another listener has the port %d, and requests cannot be told apart", b.spec.Port)
		}
	}
}

// port decides whether a listener can have its port.
func (g *gateways) port(l *listener) {
	port, secure := l.spec.Port, protocols[l.spec.Protocol].secure
	if spoken, ok := g.spoken[port]; ok && spoken != secure {
		l.accepted.refuse(string(gatewayv1.ListenerReasonPortUnavailable), "the port %d is used with%s TLS by others that share the proxy", port, map[bool]string{false: "out"}[spoken])
		return
	}
	g.spoken[port] = secure
	if port != PlainPort && port != SecurePort {
		g.table.Ports[port] = secure
	}
	if why, closed := g.from.Closed[port]; closed {
		l.accepted.refuse(string(gatewayv1.ListenerReasonPortUnavailable), "the port %d cannot be opened: %s", port, why)
	}
}

// open makes what is served of those listeners of a Gateway that can be.
func (g *gateways) open(one *gateway, all []*listener) {
	byPort := map[int32][]*Listener{}
	for _, l := range all {
		passes := l.spec.TLS != nil && ptr.Deref(l.spec.TLS.Mode, "") == gatewayv1.TLSModePassthrough
		if !l.programmed(one).ok() {
			continue
		}
		l.served = &Listener{
			Gateway: object.KeyOf(one.object), Owner: Key(l.parent.kind, l.parent.object.GetNamespace(), l.parent.object.GetName()), Name: string(l.spec.Name), Port: l.spec.Port,
			Hostname: l.hostname, Certificates: l.certificates, Validation: l.validation, secure: protocols[l.spec.Protocol].secure, passes: passes,
		}
		byPort[l.spec.Port] = append(byPort[l.spec.Port], l.served)
		if l.served.secure && !passes {
			at := g.table.sockets(l.spec.Port)
			at.byName[l.hostname] = append(at.byName[l.hostname], l.served)
		}
	}
	for _, siblings := range byPort {
		slices.SortFunc(siblings, func(a, b *Listener) int {
			wild := func(l *Listener) int {
				switch {
				case l.Hostname == "":
					return 2
				case strings.HasPrefix(l.Hostname, "*."):
					return 1
				}
				return 0
			}
			return cmp.Or(cmp.Compare(wild(a), wild(b)), -cmp.Compare(strings.Count(a.Hostname, "."), strings.Count(b.Hostname, ".")), cmp.Compare(a.Hostname, b.Hostname))
		})
		for _, l := range siblings {
			l.siblings = siblings
			for _, other := range siblings {
				if nearer(other.Hostname, l.Hostname) {
					l.nearer = append(l.nearer, other.Hostname)
				}
			}
		}
	}
}

// programmed decides whether a listener is served.
func (l *listener) programmed(one *gateway) verdict {
	var v verdict
	switch ends := protocols[l.spec.Protocol].secure && (l.spec.TLS == nil || ptr.Deref(l.spec.TLS.Mode, "") != gatewayv1.TLSModePassthrough); {
	case !l.conflict.ok():
		v.refuse(l.conflict.reason, "%s", l.conflict.message)
	case !l.accepted.ok():
		v.refuse(string(gatewayv1.ListenerReasonInvalid), "%s", l.accepted.message)
	case !one.accepted.ok():
		v.refuse(string(gatewayv1.ListenerReasonInvalid), "the Gateway is not accepted: %s", one.accepted.message)
	case ends && len(l.certificates) == 0:
		v.refuse(string(gatewayv1.ListenerReasonInvalid), "there is no certificate: %s", l.refs.message)
	case len(l.kinds) == 0:
		v.refuse(string(gatewayv1.ListenerReasonInvalid), "no kind of routes is allowed: %s", l.refs.message)
	}
	return v
}

// conditions are those of a listener's status.
func (l *listener) conditions(generation int64) []metav1.Condition {
	accepted := l.conflict
	if accepted.ok() {
		accepted = l.accepted
	}
	conflicted := metav1.Condition{
		Type: string(gatewayv1.ListenerConditionConflicted), Status: metav1.ConditionFalse, Reason: string(gatewayv1.ListenerReasonNoConflicts), ObservedGeneration: generation,
	}
	if !l.conflict.ok() {
		conflicted = isTrue(conflicted.Type, l.conflict.reason, l.conflict.message, generation)
	}
	out := []metav1.Condition{
		accepted.condition(string(gatewayv1.ListenerConditionAccepted), string(gatewayv1.ListenerReasonAccepted), generation),
		l.programmed(l.parent.of).condition(string(gatewayv1.ListenerConditionProgrammed), string(gatewayv1.ListenerReasonProgrammed), generation),
		l.refs.condition(string(gatewayv1.ListenerConditionResolvedRefs), string(gatewayv1.ListenerReasonResolvedRefs), generation),
		conflicted,
	}
	if l.overlaps {
		out = append(out, isTrue(string(gatewayv1.ListenerConditionOverlappingTLSConfig), string(gatewayv1.ListenerReasonOverlappingHostnames),
			"another listener at the port is for some of the same hosts: requests that come by the connection of the other one are answered with 421", generation))
	}
	return out
}
