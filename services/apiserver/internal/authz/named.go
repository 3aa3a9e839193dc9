package authz

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"

	"howdah.dev/services/apiserver/internal/authn"
)

// Decisions counts what each authorizer of a chain decided, under Kubernetes' name.
type Decisions struct{ total *prometheus.CounterVec }

// NewDecisions registers the metric; a nil registerer registers it nowhere.
func NewDecisions(r prometheus.Registerer) *Decisions {
	d := &Decisions{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "apiserver_authorization_decisions_total", Help: "Decisions by authorizer: allowed or denied.",
	}, []string{"type", "name", "decision"})}
	if r != nil {
		r.MustRegister(d.total)
	}
	return d
}

// Named returns the authorizer as one whose decisions are counted by its type and name.
func (d *Decisions) Named(kind, name string, a Authorizer) Authorizer {
	n := named{a, d.total.WithLabelValues(kind, name, "allowed"), d.total.WithLabelValues(kind, name, "denied")}
	if lister, ok := a.(Lister); ok {
		return listing{n, lister}
	}
	return n
}

type named struct {
	Authorizer
	allowed, denied prometheus.Counter
}

// Authorize implements Authorizer.
func (n named) Authorize(ctx context.Context, a *Attributes) (Decision, string, error) {
	decision, reason, err := n.Authorizer.Authorize(ctx, a)
	switch decision {
	case Allow:
		n.allowed.Inc()
	case Deny:
		n.denied.Inc()
	}
	return decision, reason, err
}

type listing struct {
	named
	Lister
}

// Switch is a chain that may be replaced while it decides.
type Switch struct{ current atomic.Pointer[Chain] }

// NewSwitch returns a switch that begins with the chain.
func NewSwitch(c Chain) *Switch {
	s := &Switch{}
	s.Put(c)
	return s
}

// Put makes the chain the one that decides from now on.
func (s *Switch) Put(c Chain) { s.current.Store(&c) }

// Authorize implements Authorizer.
func (s *Switch) Authorize(ctx context.Context, a *Attributes) (Decision, string, error) {
	return s.current.Load().Authorize(ctx, a)
}

// RulesFor implements Lister.
func (s *Switch) RulesFor(ctx context.Context, user *authn.User, namespace string) ([]rbacv1.PolicyRule, bool, error) {
	return s.current.Load().RulesFor(ctx, user, namespace)
}
