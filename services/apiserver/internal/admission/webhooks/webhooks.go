// Package webhooks has the plugins MutatingAdmissionWebhook and ValidatingAdmissionWebhook: they ask the webhooks that
// MutatingWebhookConfigurations and ValidatingWebhookConfigurations name.
//
// A webhook may hang, lie or answer garbage: what then happens its failure policy says. Nothing that it sends is trusted further
// than its configuration goes, and nothing is waited for longer.
package webhooks

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/admission/view"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/webhook"
)

// Poster calls a webhook.
type Poster interface {
	Post(ctx context.Context, call webhook.Call) ([]byte, error)
}

// Config is what the plugins need.
type Config struct {
	Table      *registry.Table
	Cache      *cache.Cache
	Objects    admission.Objects
	Authorizer authz.Authorizer
	Caller     Poster
	// Mutating and Validating are whom the apiserver is to the webhooks of each; nil is nobody.
	Mutating, Validating *webhook.Identities
	// Registerer takes the metrics; nil registers them nowhere.
	Registerer prometheus.Registerer
}

// New returns both plugins, which share their metrics.
func New(cfg Config) (*Mutating, *Validating) {
	mutating := caller{
		table: cfg.Table, objects: cfg.Objects, authorizer: view.Authorizer{Authorizer: cfg.Authorizer}, post: cfg.Caller,
		reviews: newReviews(), identities: cfg.Mutating, metrics: newMetrics(cfg.Registerer),
	}
	validating := mutating
	validating.identities = cfg.Validating
	return &Mutating{&mutating, view.Follow(cfg.Table, cfg.Cache, admissionv1.GroupName, []string{"mutatingwebhookconfigurations"}, mutatingHooks)},
		&Validating{&validating, view.Follow(cfg.Table, cfg.Cache, admissionv1.GroupName, []string{"validatingwebhookconfigurations"}, validatingHooks)}
}

// handles reports whether a write may concern any of the webhooks.
func handles(a *admission.Attributes, hooks *view.Followed[*index]) bool {
	return !hooks.Ready() || len(hooks.Get().hooks) > 0 && !view.Exempt(a)
}
