package route

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// compiled is what a route's rules do.
type compiled struct {
	rules   int
	dropped []string // why rules are left out
	refs    verdict
	matches []match
	stream  *Rule // of a TLSRoute
}

// match is one way by which requests come to a rule.
type match struct {
	path       string
	kind       networkingv1.PathType
	expression *regexp.Regexp // of the whole path, in place of these
	conditions *conditions
	rule       *Rule
}

func (c *compiled) drop(n int, name *gatewayv1.SectionName, err error) {
	c.dropped = append(c.dropped, fmt.Sprintf("rule %d %s: %v", n, ptr.Deref(name, ""), err))
}

// ruleSpec is a rule of an HTTPRoute, or one of a GRPCRoute said in the same way.
type ruleSpec struct {
	name        *gatewayv1.SectionName
	refused     error // of a field that cannot act
	persistence *gatewayv1.SessionPersistence
	matches     func() ([]match, error)
	timeouts    *gatewayv1.HTTPRouteTimeouts
	filters     []gatewayv1.HTTPRouteFilter
	backends    []gatewayv1.HTTPBackendRef
	grpc        bool
}

// httpRoute compiles the rules of an HTTPRoute.
func (g *gateways) httpRoute(r *gatewayRoute, o *gatewayv1.HTTPRoute, at *gateway) *compiled {
	specs := make([]ruleSpec, 0, len(o.Spec.Rules))
	for _, rule := range o.Spec.Rules {
		spec := ruleSpec{
			name: rule.Name, persistence: rule.SessionPersistence, timeouts: rule.Timeouts, filters: rule.Filters, backends: rule.BackendRefs,
			matches: func() ([]match, error) { return g.httpMatches(rule.Matches) },
		}
		if rule.Retry != nil {
			spec.refused = fmt.Errorf("retry cannot act here")
		}
		specs = append(specs, spec)
	}
	return g.rules(r, specs, at)
}

// rules compiles a route's rules. One that cannot act as it says is left out whole.
func (g *gateways) rules(r *gatewayRoute, specs []ruleSpec, at *gateway) *compiled {
	c := &compiled{rules: len(specs)}
	for n := range specs {
		matches, err := g.rule(r, &specs[n], at, c)
		if err != nil {
			c.drop(n, specs[n].name, err)
			continue
		}
		c.matches = append(c.matches, matches...)
	}
	return c
}

// rule returns the ways by which requests come to a rule.
func (g *gateways) rule(r *gatewayRoute, spec *ruleSpec, at *gateway, c *compiled) ([]match, error) {
	if spec.refused != nil {
		return nil, spec.refused
	}
	if err := unsupported(r.spec, spec.persistence); err != nil {
		return nil, err
	}
	matches, err := spec.matches()
	if err != nil {
		return nil, err
	}
	out := &Rule{}
	if err := timeouts(out, spec.timeouts); err != nil {
		return nil, err
	}
	if out.Filters, err = g.filters(r, at, spec.filters, c, out); err != nil {
		return nil, err
	}
	for _, ref := range spec.backends {
		target := g.target(r, at, ref.BackendRef, c, spec.grpc)
		var failed Rule
		if target.Filters, err = g.filters(r, at, ref.Filters, c, &failed); err != nil {
			return nil, err
		}
		if target.Filters.Redirect != nil || target.Filters.CORS != nil {
			return nil, fmt.Errorf("a backend's filters can change requests and answers, and mirror them, alone")
		}
		if failed.Code != 0 {
			target.Backend = &Backend{Namespace: target.Backend.Namespace, Service: target.Backend.Service, Problem: "a filter of the backend is not known"}
		}
		out.add(target)
	}
	for m := range matches {
		matches[m].rule = out
	}
	return matches, nil
}

func (r *Rule) add(t Target) {
	r.Targets = append(r.Targets, t)
	r.sum += t.Weight
}

// unsupported refuses what no data plane of ours does.
func unsupported(spec *gatewayv1.CommonRouteSpec, persistence *gatewayv1.SessionPersistence) error {
	switch {
	case spec.UseDefaultGateways != "" && spec.UseDefaultGateways != gatewayv1.GatewayDefaultScopeNone:
		return fmt.Errorf("routes name their Gateways here: useDefaultGateways cannot act")
	case persistence != nil:
		return fmt.Errorf("sessionPersistence cannot act here; the Service's sessionAffinity does")
	}
	return nil
}

func timeouts(r *Rule, t *gatewayv1.HTTPRouteTimeouts) error {
	if t == nil {
		return nil
	}
	for name, text := range map[string]*gatewayv1.Duration{"request": t.Request, "backendRequest": t.BackendRequest} {
		if text == nil {
			continue
		}
		d, err := time.ParseDuration(string(*text))
		if err != nil || d < 0 {
			return fmt.Errorf("timeouts.%s: %q is no duration", name, *text)
		}
		r.Patient = true
		if d > 0 && (r.Timeout == 0 || d < r.Timeout) {
			r.Timeout = d
		}
	}
	return nil
}

func (g *gateways) httpMatches(all []gatewayv1.HTTPRouteMatch) ([]match, error) {
	if len(all) == 0 {
		all = []gatewayv1.HTTPRouteMatch{{}}
	}
	out := make([]match, 0, len(all))
	for n := range all {
		m := &all[n]
		one := match{path: "/", kind: networkingv1.PathTypePrefix}
		if m.Path != nil {
			one.path = ptr.Deref(m.Path.Value, "/")
			switch kind := ptr.Deref(m.Path.Type, gatewayv1.PathMatchPathPrefix); kind {
			case gatewayv1.PathMatchPathPrefix:
			case gatewayv1.PathMatchExact:
				one.kind = networkingv1.PathTypeExact
			case gatewayv1.PathMatchRegularExpression:
				var err error
				if one.kind, one.expression, err = expressed(g, one.path); err != nil {
					return nil, fmt.Errorf("path: %w", err)
				}
			default:
				return nil, fmt.Errorf("the path's type %q is not known", kind)
			}
		}
		c := conditions{method: string(ptr.Deref(m.Method, ""))}
		for _, h := range m.Headers {
			var err error
			if c.headers, err = g.value(c.headers, canonicalHeader(string(h.Name)), h.Value, string(ptr.Deref(h.Type, gatewayv1.HeaderMatchExact))); err != nil {
				return nil, fmt.Errorf("header %s: %w", h.Name, err)
			}
		}
		for _, q := range m.QueryParams {
			var err error
			if c.query, err = g.value(c.query, string(q.Name), q.Value, string(ptr.Deref(q.Type, gatewayv1.QueryParamMatchExact))); err != nil {
				return nil, fmt.Errorf("query parameter %s: %w", q.Name, err)
			}
		}
		if c.weight() > 0 {
			one.conditions = &c
		}
		out = append(out, one)
	}
	return out, nil
}

func expressed(g *gateways, text string) (networkingv1.PathType, *regexp.Regexp, error) {
	e, err := g.expression(text)
	return networkingv1.PathTypeImplementationSpecific, e, err
}

// value adds what is asked of a header or parameter; of the same name the first one counts.
func (g *gateways) value(to []valueMatch, name, value, kind string) ([]valueMatch, error) {
	if slices.ContainsFunc(to, func(m valueMatch) bool { return m.name == name }) {
		return to, nil
	}
	m := valueMatch{name: name, value: value}
	switch kind {
	case "Exact":
	case "RegularExpression":
		var err error
		if m.expression, err = g.expression(value); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("the type %q is not known", kind)
	}
	return append(to, m), nil
}

// tlsRoute compiles the one rule of a TLSRoute.
func (g *gateways) tlsRoute(r *gatewayRoute, o *gatewayv1.TLSRoute, at *gateway) *compiled {
	c := &compiled{rules: len(o.Spec.Rules), stream: &Rule{}}
	for n := range o.Spec.Rules {
		if err := unsupported(r.spec, nil); err != nil {
			c.drop(n, o.Spec.Rules[n].Name, err)
			continue
		}
		for _, ref := range o.Spec.Rules[n].BackendRefs {
			c.stream.add(g.target(r, at, ref, c, false))
		}
	}
	return c
}
