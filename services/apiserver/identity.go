package apiserver

import (
	"context"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authn/bootstraptoken"
	"howdah.dev/services/apiserver/internal/authn/credfile"
	authnhook "howdah.dev/services/apiserver/internal/authn/hook"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/remote"
	"howdah.dev/services/apiserver/internal/signer"
	"howdah.dev/services/apiserver/internal/token"
)

// Authentication says who is let in. The zero value knows certificates and the tokens of service accounts.
type Authentication struct {
	// NoAnonymous refuses requests without credentials, which are system:anonymous's otherwise. With AlwaysAllow they are always
	// refused.
	NoAnonymous bool
	// AnonymousGiven says that NoAnonymous was chosen, and may not be by ConfigFile too.
	AnonymousGiven bool
	// OtherIssuers are former issuers of service-account tokens, whose tokens are still good.
	OtherIssuers []string
	// Audiences are the API's own; default the issuers.
	Audiences []string
	// JWKSURI is told to those who verify service-account tokens themselves; default <issuer>/openid/v1/jwks.
	JWKSURI string
	// SigningEndpoint is the socket of a program that signs service-account tokens and has the keys that verify them, in place of
	// Config.ServiceAccountKey and Config.PublicKeys; empty is none.
	SigningEndpoint string
	// MaxTokenLifetime bounds service-account tokens; 0 does not.
	MaxTokenLifetime time.Duration
	// NoTokenExtension has the tokens of pods end when they say. Otherwise those that a pod gets without asking for one last a year,
	// for clients that do not read them anew.
	NoTokenExtension bool
	// TokenFile and PasswordFile list users with their tokens or passwords; empty is none.
	TokenFile, PasswordFile string
	// BootstrapTokens lets in who holds a bootstrap token, a Secret of kube-system.
	BootstrapTokens bool
	// OIDC is the OpenID Connect provider; nil is none.
	OIDC *OIDC
	// ConfigFile is an AuthenticationConfiguration: issuers of tokens, and who may come without any. It is followed. Empty is none.
	ConfigFile string
	// Webhook is asked for tokens that nobody else knows; nil is none.
	Webhook *TokenWebhook
}

// OIDC has the meaning, and the defaults, of Kubernetes' --oidc flags.
type OIDC struct {
	IssuerURL, ClientID           string
	UsernameClaim, UsernamePrefix string
	GroupsClaim, GroupsPrefix     string
	CAFile                        string
	SigningAlgs                   []string
	RequiredClaims                map[string]string
}

// TokenWebhook is asked by TokenReviews.
type TokenWebhook struct {
	// ConfigFile is a kubeconfig that names the service.
	ConfigFile string
	// Version of TokenReview: v1 or v1beta1.
	Version string
	// CacheTTL is how long answers hold.
	CacheTTL time.Duration
}

// Authorization is the settings of authorizers.
type Authorization struct {
	// AlwaysAllowPaths are not authorized; default /healthz, /readyz and /livez. A star at the end stands for the rest.
	AlwaysAllowPaths []string
	// PolicyFile has the policies of the mode ABAC.
	PolicyFile string
	// Webhook is that of the mode Webhook.
	Webhook AccessWebhook
	// ConfigFile is an AuthorizationConfiguration, which takes the place of AuthorizationModes and Webhook. It is followed. Empty is none.
	ConfigFile string
}

// AccessWebhook is asked by SubjectAccessReviews.
type AccessWebhook struct {
	// ConfigFile is a kubeconfig that names the service.
	ConfigFile string
	// Version of SubjectAccessReview: v1 or v1beta1.
	Version string
	// AuthorizedTTL and UnauthorizedTTL are how long answers hold.
	AuthorizedTTL, UnauthorizedTTL time.Duration
}

// authenticator returns who finds out who calls, and what issues the tokens of service accounts. The order of the verifiers is
// Kubernetes' own.
func (s *Server) authenticator(authorizer authz.Authorizer) (*authn.Authenticator, *token.Authority, error) {
	cfg := s.cfg.Authentication
	issuers := append([]string{s.cfg.Issuer}, cfg.OtherIssuers...)
	if len(cfg.Audiences) == 0 {
		cfg.Audiences = issuers
	}
	uses := newTokenUses(lateAPI{s})
	s.background = append(s.background, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ready:
			return uses.Run(ctx)
		}
	})
	remembered := authn.NewTokenCache(s.cfg.Registerer)
	external, err := s.externalSigner(cfg)
	if err != nil {
		return nil, nil, err
	}
	tokens, err := token.New(token.Config{
		External: external, Cache: remembered, Used: uses.note,
		Issuers: issuers, Audiences: cfg.Audiences, JWKSURI: cfg.JWKSURI, Key: s.cfg.ServiceAccountKey, More: s.cfg.PublicKeys,
		MaxLifetime: cfg.MaxTokenLifetime, Extend: !cfg.NoTokenExtension, Objects: s.known, Fresh: s.cache.Fresh, Clock: s.cfg.Clock, Registerer: s.cfg.Registerer,
	})
	if err != nil {
		return nil, nil, err
	}
	a := &authn.Authenticator{
		Audiences: cfg.Audiences, Anonymous: !cfg.NoAnonymous && !slices.Contains(s.cfg.AuthorizationModes, "AlwaysAllow"),
		MayImpersonate: mayImpersonate(authorizer), Modes: authn.NewModes(), Metrics: authn.NewMetrics(s.cfg.Registerer),
	}
	agnostic := func(holder func(context.Context, string) (*authn.User, error)) {
		a.Tokens = append(a.Tokens, authn.Agnostic{Audiences: cfg.Audiences, Holder: holder})
	}
	if cfg.TokenFile != "" {
		known, err := credfile.LoadTokens(cfg.TokenFile)
		if err != nil {
			return nil, nil, err
		}
		agnostic(known.Holder)
	}
	if cfg.PasswordFile != "" {
		if a.Passwords, err = credfile.LoadPasswords(cfg.PasswordFile); err != nil {
			return nil, nil, err
		}
	}
	a.Tokens = append(a.Tokens, tokens)
	if cfg.BootstrapTokens {
		agnostic(bootstraptoken.Verifier{Objects: s.known, Clock: s.cfg.Clock}.Holder)
	}
	if err := s.addIssuers(a, issuers, agnostic); err != nil {
		return nil, nil, err
	}
	if cfg.Webhook != nil {
		hook, err := s.tokenWebhook(cfg, remembered)
		if err != nil {
			return nil, nil, err
		}
		a.Tokens = append(a.Tokens, hook)
	}
	return a, tokens, nil
}

// externalSigner returns who signs the tokens of service accounts in place of a key, nil where nobody does.
func (s *Server) externalSigner(cfg Authentication) (token.External, error) {
	if cfg.SigningEndpoint == "" {
		return nil, nil
	}
	other, err := signer.New(signer.Config{Endpoint: cfg.SigningEndpoint, MaxLifetime: cfg.MaxTokenLifetime, Clock: s.cfg.Clock, Registerer: s.cfg.Registerer})
	if err != nil {
		return nil, err
	}
	s.signs = other.Connected()
	s.background = append(s.background, other.Run)
	return other, nil
}

func (s *Server) tokenWebhook(cfg Authentication, remembered *authn.TokenCache) (*authnhook.Verifier, error) {
	client, err := remote.New(remote.Config{
		Kubeconfig: cfg.Webhook.ConfigFile, Version: schema.GroupVersion{Group: authenticationv1.GroupName, Version: cfg.Webhook.Version}, Clock: s.cfg.Clock,
	})
	if err != nil {
		return nil, err
	}
	return authnhook.New(authnhook.Config{
		Cache: remembered, Poster: client, Version: cfg.Webhook.Version, TTL: cfg.Webhook.CacheTTL, Audiences: cfg.Audiences, Clock: s.cfg.Clock, Registerer: s.cfg.Registerer,
	})
}

// mayImpersonate asks the authorizers for what impersonating takes.
func mayImpersonate(authorizer authz.Authorizer) func(context.Context, *authn.User, authn.Access, string) error {
	return func(ctx context.Context, user *authn.User, access authn.Access, refusal string) error {
		a := authz.For(user, access)
		if refusal != "" {
			return authz.Forbidden(a, refusal)
		}
		return authz.Require(ctx, authorizer, a)
	}
}
