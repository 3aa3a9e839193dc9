package route

import (
	"fmt"
	"strconv"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// target resolves a backend that a route names. One that cannot be has its share of the requests all the same, which are refused.
func (g *gateways) target(r *gatewayRoute, at *gateway, ref gatewayv1.BackendRef, c *compiled, grpc bool) Target {
	return Target{Weight: int64(ptr.Deref(ref.Weight, 1)), Backend: g.gatewayBackend(r, at, ref.BackendObjectReference, c, grpc)}
}

func (g *gateways) gatewayBackend(r *gatewayRoute, at *gateway, ref gatewayv1.BackendObjectReference, c *compiled, grpc bool) *Backend {
	from := r.object.GetNamespace()
	namespace, name := string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(from))), string(ref.Name)
	refuse := func(reason gatewayv1.RouteConditionReason, format string, args ...any) *Backend {
		problem := fmt.Sprintf(format, args...)
		c.refs.refuse(string(reason), "%s", problem)
		return &Backend{Namespace: namespace, Service: name, Problem: problem, reason: string(reason)}
	}
	if ptr.Deref(ref.Group, "") != "" || ptr.Deref(ref.Kind, "Service") != "Service" {
		return refuse(gatewayv1.RouteReasonInvalidKind, "the backend %q is a %s: this controller serves Services alone", name, ptr.Deref(ref.Kind, ""))
	}
	if !g.granted(r.kind, from, "", "Service", namespace, name) {
		return refuse(gatewayv1.RouteReasonRefNotPermitted, "no ReferenceGrant of the namespace %s lets this %s name the Service %q", namespace, r.kind, name)
	}
	if ref.Port == nil {
		return refuse(gatewayv1.RouteReasonUnsupportedValue, "the backend %q has no port", name)
	}
	key := backendKey{namespace: namespace, service: name, port: strconv.Itoa(int(*ref.Port)), of: at, kind: r.kind}
	known := g.backends[key]
	if known == nil {
		known = g.resolve(key, networkingv1.ServiceBackendPort{Number: *ref.Port})
		if known.Problem == "" && r.kind != "TLSRoute" {
			g.secureBackend(known, at)
		}
		if grpc && known.Protocol == HTTP {
			known.Protocol = H2C
		}
		g.backends[key] = known
	}
	if known.Problem != "" {
		reason := gatewayv1.RouteReasonBackendNotFound
		switch known.reason {
		case ReasonBackend:
			reason = gatewayv1.RouteReasonUnsupportedProtocol
		case reasonPolicy:
			return known // the policy's status says so
		}
		c.refs.refuse(string(reason), "%s", known.Problem)
	} else if r.kind != "TLSRoute" {
		g.policies.used(known, at)
	}
	return known
}
