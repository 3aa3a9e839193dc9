package route

import (
	"fmt"
	"regexp"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// grpcRoute compiles the rules of a GRPCRoute: a method of a service is a path.
func (g *gateways) grpcRoute(r *gatewayRoute, o *gatewayv1.GRPCRoute, at *gateway) *compiled {
	specs := make([]ruleSpec, 0, len(o.Spec.Rules))
	for _, rule := range o.Spec.Rules {
		spec := ruleSpec{
			name: rule.Name, persistence: rule.SessionPersistence, filters: httpFilters(rule.Filters), grpc: true,
			matches: func() ([]match, error) { return g.grpcMatches(rule.Matches) },
		}
		for _, ref := range rule.BackendRefs {
			spec.backends = append(spec.backends, gatewayv1.HTTPBackendRef{BackendRef: ref.BackendRef, Filters: httpFilters(ref.Filters)})
		}
		specs = append(specs, spec)
	}
	return g.rules(r, specs, at)
}

// httpFilters are those of a GRPCRoute as those of an HTTPRoute.
func httpFilters(all []gatewayv1.GRPCRouteFilter) []gatewayv1.HTTPRouteFilter {
	out := make([]gatewayv1.HTTPRouteFilter, 0, len(all))
	for _, f := range all {
		out = append(out, gatewayv1.HTTPRouteFilter{
			Type: gatewayv1.HTTPRouteFilterType(f.Type), RequestHeaderModifier: f.RequestHeaderModifier, ResponseHeaderModifier: f.ResponseHeaderModifier,
			RequestMirror: f.RequestMirror, ExtensionRef: f.ExtensionRef,
		})
	}
	return out
}

func (g *gateways) grpcMatches(all []gatewayv1.GRPCRouteMatch) ([]match, error) {
	if len(all) == 0 {
		all = []gatewayv1.GRPCRouteMatch{{}}
	}
	out := make([]match, 0, len(all))
	for n := range all {
		one, err := g.grpcMethod(all[n].Method)
		if err != nil {
			return nil, fmt.Errorf("method: %w", err)
		}
		var c conditions
		for _, h := range all[n].Headers {
			if c.headers, err = g.value(c.headers, canonicalHeader(string(h.Name)), h.Value, string(ptr.Deref(h.Type, gatewayv1.GRPCHeaderMatchExact))); err != nil {
				return nil, fmt.Errorf("header %s: %w", h.Name, err)
			}
		}
		if c.weight() > 0 {
			one.conditions = &c
		}
		out = append(out, one)
	}
	return out, nil
}

func (g *gateways) grpcMethod(m *gatewayv1.GRPCMethodMatch) (match, error) {
	out := match{path: "/", kind: networkingv1.PathTypePrefix}
	if m == nil {
		return out, nil
	}
	service, method := ptr.Deref(m.Service, ""), ptr.Deref(m.Method, "")
	quote := regexp.QuoteMeta
	switch kind := ptr.Deref(m.Type, gatewayv1.GRPCMethodMatchExact); {
	case kind == gatewayv1.GRPCMethodMatchRegularExpression:
		quote = func(s string) string { return s }
	case kind != gatewayv1.GRPCMethodMatchExact:
		return out, fmt.Errorf("the type %q is not known", kind)
	case service != "" && method != "":
		out.path, out.kind = "/"+service+"/"+method, networkingv1.PathTypeExact
		return out, nil
	case service != "" || method == "":
		out.path = "/" + service
		return out, nil
	}
	any := func(text string) string {
		if text == "" {
			return "[^/]+"
		}
		return "(?:" + quote(text) + ")"
	}
	out.path = "/" + any(service) + "/" + any(method)
	var err error
	out.kind, out.expression, err = expressed(g, out.path)
	return out, err
}
