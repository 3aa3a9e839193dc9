package route

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"howdah.dev/kit/object"
)

// tell decides the status of a Gateway and of its ListenerSets.
func (g *gateways) tell(one *gateway) {
	o, generation := one.object, one.object.Generation
	status := gatewayv1.GatewayStatus{Listeners: []gatewayv1.ListenerStatus{}, Addresses: []gatewayv1.GatewayStatusAddress{}, AttachedListenerSets: ptr.To[int32](0)}
	accepted, programmed, refs := one.accepted, one.address, one.refs
	all, valid, served := 0, 0, 0
	for _, p := range one.parents {
		v, s := counts(p.listeners)
		all, valid, served = all+len(p.listeners), valid+v, served+s
		for _, l := range p.listeners {
			if p.kind != "Gateway" {
				continue
			}
			status.Listeners = append(status.Listeners, gatewayv1.ListenerStatus{Name: l.spec.Name, SupportedKinds: l.kinds, AttachedRoutes: l.attached, Conditions: l.conditions(generation)})
			g.fault(o, status.Listeners[len(status.Listeners)-1].Conditions)
			if !l.refs.ok() {
				refs.refuse(string(gatewayv1.GatewayReasonListenersNotResolved), "the listener %q: %s", l.spec.Name, l.refs.message)
			}
		}
		if set, ok := p.object.(*gatewayv1.ListenerSet); ok {
			if v > 0 {
				*status.AttachedListenerSets++
			}
			g.tellSet(set, verdict{}, p)
		}
	}
	if valid == 0 {
		accepted.refuse(string(gatewayv1.GatewayReasonListenersNotValid), "no listener is valid")
	}
	switch {
	case !accepted.ok():
		programmed.refuse(string(gatewayv1.GatewayReasonInvalid), "the Gateway is not accepted: %s", accepted.message)
	case served == 0:
		programmed.refuse(string(gatewayv1.GatewayReasonInvalid), "no listener is served")
	}
	if accepted.ok() && served > 0 {
		status.Addresses = append(status.Addresses, one.usable...)
	}
	good := gatewayv1.GatewayReasonAccepted
	if valid < all {
		good = gatewayv1.GatewayReasonListenersNotValid
	}
	status.Conditions = []metav1.Condition{
		accepted.condition(string(gatewayv1.GatewayConditionAccepted), string(good), generation),
		programmed.condition(string(gatewayv1.GatewayConditionProgrammed), string(gatewayv1.GatewayReasonProgrammed), generation),
		refs.condition(string(gatewayv1.GatewayConditionResolvedRefs), string(gatewayv1.GatewayReasonResolvedRefs), generation),
	}
	if one.insecure {
		status.Conditions = append(status.Conditions, isTrue(string(gatewayv1.GatewayConditionInsecureFrontendValidationMode), string(gatewayv1.GatewayReasonConfigurationChanged),
			"clients without a valid certificate are let in", generation))
	}
	g.fault(o, status.Conditions)
	g.table.Statuses.Gateways[object.KeyOf(o)] = status
}

// fault tells of the conditions that do not hold in events, too.
func (g *gateways) fault(about object.Object, conditions []metav1.Condition) {
	f := &faults{about: about, list: &g.table.Faults, seen: map[string]bool{}}
	for _, c := range conditions {
		if c.Status == metav1.ConditionFalse && c.Message != "" {
			f.add(c.Reason, "%s", c.Message)
		}
	}
}
