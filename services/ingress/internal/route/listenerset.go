package route

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"howdah.dev/kit/object"
)

// setsByGateway sorts ListenerSets by the Gateways that they are to be part of, oldest first.
func (g *gateways) setsByGateway() map[string][]*gatewayv1.ListenerSet {
	out := map[string][]*gatewayv1.ListenerSet{}
	for _, set := range sorted(g.from.ListenerSets) {
		p := set.Spec.ParentRef
		if ptr.Deref(p.Group, group) == group && ptr.Deref(p.Kind, "Gateway") == "Gateway" {
			key := object.Key(string(ptr.Deref(p.Namespace, gatewayv1.Namespace(set.Namespace))), string(p.Name))
			out[key] = append(out[key], set)
		}
	}
	return out
}

// admits reports whether a ListenerSet becomes part of a Gateway. What becomes of one that does not is told.
func (g *gateways) admits(one *gateway, set *gatewayv1.ListenerSet) bool {
	from, selector := gatewayv1.NamespacesFromNone, (*metav1.LabelSelector)(nil)
	if a := one.object.Spec.AllowedListeners; a != nil && a.Namespaces != nil {
		from, selector = ptr.Deref(a.Namespaces.From, from), a.Namespaces.Selector
	}
	var why verdict
	if !g.allows(from, selector, one.object.Namespace, set.Namespace) {
		why.refuse(string(gatewayv1.ListenerSetReasonNotAllowed), "the Gateway allows no ListenerSets of this namespace: spec.allowedListeners")
	} else if !one.accepted.ok() {
		why.refuse(string(gatewayv1.ListenerSetReasonParentNotAccepted), "the Gateway is not accepted")
	}
	if why.ok() {
		return true
	}
	g.tellSet(set, why, nil)
	return false
}

// allows reports whether objects of a namespace may attach to one of the namespace home.
func (g *gateways) allows(from gatewayv1.FromNamespaces, selector *metav1.LabelSelector, home, namespace string) bool {
	switch from {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSame:
		return home == namespace
	case gatewayv1.NamespacesFromSelector:
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil || s.Empty() && selector == nil {
			return false
		}
		n, ok := g.objects.Namespace(namespace)
		return ok && s.Matches(labels.Set(n.Labels))
	}
	return false
}

// tellSet tells of a ListenerSet, and of its listeners where it has become part of a Gateway.
func (g *gateways) tellSet(set *gatewayv1.ListenerSet, why verdict, p *parent) {
	accepted, programmed := why, why
	status := gatewayv1.ListenerSetStatus{Listeners: []gatewayv1.ListenerEntryStatus{}}
	if p != nil {
		valid, served := counts(p.listeners)
		if valid == 0 || served == 0 {
			accepted.refuse(string(gatewayv1.ListenerSetReasonListenersNotValid), "no listener is valid")
		}
		if served == 0 {
			programmed.refuse(string(gatewayv1.ListenerSetReasonListenersNotValid), "no listener is served")
		}
		for _, l := range p.listeners {
			status.Listeners = append(status.Listeners, gatewayv1.ListenerEntryStatus{
				Name: l.spec.Name, SupportedKinds: l.kinds, AttachedRoutes: l.attached, Conditions: l.conditions(set.Generation),
			})
			g.fault(set, status.Listeners[len(status.Listeners)-1].Conditions)
		}
	}
	status.Conditions = []metav1.Condition{
		accepted.condition(string(gatewayv1.ListenerSetConditionAccepted), string(gatewayv1.ListenerSetReasonAccepted), set.Generation),
		programmed.condition(string(gatewayv1.ListenerSetConditionProgrammed), string(gatewayv1.ListenerSetReasonProgrammed), set.Generation),
	}
	g.fault(set, status.Conditions)
	g.table.Statuses.ListenerSets[object.KeyOf(set)] = status
}

// counts returns how many listeners are valid, and how many are served.
func counts(all []*listener) (valid, served int) {
	for _, l := range all {
		if l.conflict.ok() && l.accepted.ok() {
			valid++
		}
		if l.served != nil {
			served++
		}
	}
	return valid, served
}
