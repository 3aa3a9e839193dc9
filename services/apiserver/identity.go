package apiserver

import (
	"context"
	"slices"
	"time"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/nodeauthz"
	"howdah.dev/services/apiserver/internal/rbac"
	"howdah.dev/services/apiserver/internal/rbacpolicy"
	"howdah.dev/services/apiserver/internal/token"
)

// Authentication says who is let in. The zero value knows certificates and the tokens of service accounts.
type Authentication struct {
	// NoAnonymous refuses requests without credentials, which are system:anonymous's otherwise. With AlwaysAllow they are always
	// refused.
	NoAnonymous bool
	// OtherIssuers are former issuers of service-account tokens, whose tokens are still good.
	OtherIssuers []string
	// Audiences are the API's own; default the issuers.
	Audiences []string
	// JWKSURI is told to those who verify service-account tokens themselves; default <issuer>/openid/v1/jwks.
	JWKSURI string
	// MaxTokenLifetime bounds service-account tokens; 0 does not.
	MaxTokenLifetime time.Duration
}

// Authorization is the settings of authorizers.
type Authorization struct {
	// AlwaysAllowPaths are not authorized; default /healthz, /readyz and /livez. A star at the end stands for the rest.
	AlwaysAllowPaths []string
}

// authorizer returns the chain of the configured modes, and the admission plugin that keeps users from granting more than
// they hold.
func (s *Server) authorizer(roles rbac.Source) (authz.Chain, *rbac.Guard, error) {
	modes := authz.Modes{
		"Node": nodeauthz.Authorizer{Relations: nodeauthz.Pods{Objects: s.known, Fresh: s.cache.Fresh}, Rules: rbacpolicy.NodeRules()},
		"RBAC": rbac.Authorizer{Source: roles, Ready: s.ready}, "AlwaysAllow": authz.AlwaysAllow{}, "AlwaysDeny": authz.AlwaysDeny{},
	}
	chain, err := modes.Chain(s.cfg.AuthorizationModes, authz.Groups{authn.MastersGroup})
	if err != nil {
		return nil, nil, err
	}
	return chain, &rbac.Guard{Source: roles, Authorizer: chain}, nil
}

// authenticator returns who finds out who calls, and what issues the tokens of service accounts.
func (s *Server) authenticator(authorizer authz.Authorizer) (*authn.Authenticator, *token.Authority, error) {
	cfg := s.cfg.Authentication
	issuers := append([]string{s.cfg.Issuer}, cfg.OtherIssuers...)
	if len(cfg.Audiences) == 0 {
		cfg.Audiences = issuers
	}
	tokens, err := token.New(token.Config{
		Issuers: issuers, Audiences: cfg.Audiences, JWKSURI: cfg.JWKSURI, Key: s.cfg.ServiceAccountKey, More: s.cfg.PublicKeys,
		MaxLifetime: cfg.MaxTokenLifetime, Objects: s.known, Clock: s.cfg.Clock,
	})
	if err != nil {
		return nil, nil, err
	}
	return &authn.Authenticator{
		Tokens: []authn.TokenVerifier{tokens}, Audiences: cfg.Audiences,
		Anonymous:      !cfg.NoAnonymous && !slices.Contains(s.cfg.AuthorizationModes, "AlwaysAllow"),
		MayImpersonate: mayImpersonate(authorizer), Metrics: authn.NewMetrics(s.cfg.Registerer),
	}, tokens, nil
}

// mayImpersonate asks the authorizers for the verb impersonate.
func mayImpersonate(authorizer authz.Authorizer) func(context.Context, *authn.User, authn.Impersonated) error {
	return func(ctx context.Context, user *authn.User, as authn.Impersonated) error {
		a := &authz.Attributes{
			User: user, Verb: "impersonate", Group: as.Group, Version: as.Version, Resource: as.Resource, Subresource: as.Subresource,
			Namespace: as.Namespace, Name: as.Name,
		}
		if decision, reason, err := authorizer.Authorize(ctx, a); err != nil || decision != authz.Allow {
			return authz.Forbidden(a, reason)
		}
		return nil
	}
}
