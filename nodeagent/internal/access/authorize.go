package access

import (
	"context"
	"encoding/json"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
)

// allowed reports whether the user may do this to the node, as the API server says, or has said a short while ago.
func (g *Guard) allowed(ctx context.Context, user *User, verb, subresource string) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Name, UID: user.UID, Groups: user.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: g.cfg.NodeName},
	}
	for name, values := range user.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[name] = values
	}
	asked, err := json.Marshal(spec) // maps are written in the order of their keys
	if err != nil {
		return false, fmt.Errorf("encode a review: %w", err)
	}
	key := string(asked)
	if known, ok := g.access.Get(key); ok {
		return known.(bool), nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewWithin)
	defer cancel()
	answer, err := g.cfg.Reviewer.ReviewAccess(ctx, spec)
	if err != nil {
		return false, fmt.Errorf("review access: %w", err)
	}
	ttl := deniedTTL
	if answer.Allowed {
		ttl = allowedTTL
	}
	if len(key) <= maxToken { // the answers' number is bounded, and so is their size
		g.access.Add(key, answer.Allowed, ttl)
	}
	return answer.Allowed, nil
}
