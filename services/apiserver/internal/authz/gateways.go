package authz

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"

	"howdah.dev/services/apiserver/internal/authn"
)

// Gateways allows gateways to follow which group versions extension API servers serve, whatever the modes are: in Kubernetes, that is done in the API server
// itself, which asks nobody.
type Gateways struct{}

// Authorize implements Authorizer.
func (Gateways) Authorize(_ context.Context, a *Attributes) (Decision, string, error) {
	if a.Group == "apiregistration.k8s.io" && a.Resource == "apiservices" && a.Subresource == "" && (a.Verb == "list" || a.Verb == "watch") && a.User.In(authn.GatewayGroup) {
		return Allow, "", nil
	}
	return NoOpinion, "", nil
}

// RulesFor implements Lister. Nobody asks for what a gateway may do.
func (Gateways) RulesFor(context.Context, *authn.User, string) ([]rbacv1.PolicyRule, bool, error) {
	return nil, false, nil
}
