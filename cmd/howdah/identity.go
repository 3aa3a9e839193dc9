package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/util/keyutil"

	"howdah.dev/services/apiserver"
)

// identityFlags say who is let in and who decides what they may do. Names, meanings and defaults are those of kube-apiserver, but
// for --authorization-mode, which is AlwaysAllow there.
type identityFlags struct {
	set            *pflag.FlagSet
	modes          []string
	anonymous      bool
	extendTokens   bool
	authentication apiserver.Authentication
	authorization  apiserver.Authorization
	issuers        []string
	keyFiles       []string
	oidc           apiserver.OIDC
	tokenWebhook   apiserver.TokenWebhook
}

func (i *identityFlags) flags(f *pflag.FlagSet) {
	i.set = f
	f.StringSliceVar(&i.modes, "authorization-mode", []string{"Node", "RBAC"}, "authorizers in order: Node, RBAC, ABAC, Webhook, AlwaysAllow, AlwaysDeny")
	z := &i.authorization
	f.StringSliceVar(&z.AlwaysAllowPaths, "authorization-always-allow-paths", []string{"/healthz", "/readyz", "/livez"}, "paths that are not authorized; a star at the end stands for the rest")
	f.StringVar(&z.ConfigFile, "authorization-config", "", "AuthorizationConfiguration that names the authorizers, in place of --authorization-mode and the webhook's flags; it is followed")
	f.StringVar(&z.PolicyFile, "authorization-policy-file", "", "policies of the mode ABAC, a JSON object a line")
	f.StringVar(&z.Webhook.ConfigFile, "authorization-webhook-config-file", "", "kubeconfig that names the service of the mode Webhook")
	f.StringVar(&z.Webhook.Version, "authorization-webhook-version", "v1beta1", "version of the SubjectAccessReview that the webhook gets: v1 or v1beta1")
	f.DurationVar(&z.Webhook.AuthorizedTTL, "authorization-webhook-cache-authorized-ttl", 5*time.Minute, "how long the webhook's consent holds")
	f.DurationVar(&z.Webhook.UnauthorizedTTL, "authorization-webhook-cache-unauthorized-ttl", 30*time.Second, "how long the webhook's refusal holds")

	a := &i.authentication
	f.BoolVar(&i.anonymous, "anonymous-auth", true, "let requests without credentials in as system:anonymous; never with AlwaysAllow")
	f.StringVar(&a.ConfigFile, "authentication-config", "", "AuthenticationConfiguration with issuers of tokens, in place of the --oidc flags, and rules for anonymous requests; it is followed")
	f.StringVar(&a.TokenFile, "token-auth-file", "", "CSV file of token, user name, user uid and groups")
	f.StringVar(&a.PasswordFile, "basic-auth-file", "", "CSV file of password, user name, user uid and groups, for basic authentication")
	f.BoolVar(&a.BootstrapTokens, "enable-bootstrap-token-auth", false, "let in who holds a Secret of type bootstrap.kubernetes.io/token of kube-system")
	f.StringSliceVar(&i.issuers, "service-account-issuer", nil, "issuer of service-account tokens; further ones are former issuers, whose tokens are still good")
	f.StringSliceVar(&a.Audiences, "api-audiences", nil, "audiences of the API; default the issuers of service-account tokens")
	f.StringVar(&a.JWKSURI, "service-account-jwks-uri", "", "where the keys of service-account tokens are told to be; default <issuer>/openid/v1/jwks")
	f.DurationVar(&a.MaxTokenLifetime, "service-account-max-token-expiration", 0, "longest life of a service-account token; 0 sets none")
	f.BoolVar(&i.extendTokens, "service-account-extend-token-expiration", true, "let the tokens last a year that pods get without asking for one, for clients that do not read them anew")
	f.StringVar(&a.SigningEndpoint, "service-account-signing-endpoint", "", "socket of a program that signs service-account tokens and has the keys that verify them, in place of sa.key and --service-account-key-file; @ begins the name of an abstract one")
	f.StringSliceVar(&i.keyFiles, "service-account-key-file", nil, "more keys, PEM, that verify service-account tokens, beside sa.key")

	f.StringVar(&i.tokenWebhook.ConfigFile, "authentication-token-webhook-config-file", "", "kubeconfig that names the service which knows tokens")
	f.StringVar(&i.tokenWebhook.Version, "authentication-token-webhook-version", "v1beta1", "version of the TokenReview that the webhook gets: v1 or v1beta1")
	f.DurationVar(&i.tokenWebhook.CacheTTL, "authentication-token-webhook-cache-ttl", 2*time.Minute, "how long the webhook's answers hold")

	o := &i.oidc
	f.StringVar(&o.IssuerURL, "oidc-issuer-url", "", "URL of the OpenID Connect provider, https only")
	f.StringVar(&o.ClientID, "oidc-client-id", "", "client that ID tokens must be issued for")
	f.StringVar(&o.CAFile, "oidc-ca-file", "", "authorities of the provider's certificate; default the system's")
	f.StringVar(&o.UsernameClaim, "oidc-username-claim", "sub", "claim that is the user name")
	f.StringVar(&o.UsernamePrefix, "oidc-username-prefix", "", "what stands before user names; default <issuer>#, but nothing for the claim email; - is nothing")
	f.StringVar(&o.GroupsClaim, "oidc-groups-claim", "", "claim that is the groups")
	f.StringVar(&o.GroupsPrefix, "oidc-groups-prefix", "", "what stands before groups")
	f.StringSliceVar(&o.SigningAlgs, "oidc-signing-algs", []string{"RS256"}, "algorithms that ID tokens may be signed with")
	f.StringToStringVar(&o.RequiredClaims, "oidc-required-claim", nil, "claims, key=value, that ID tokens must have")
}

// apply puts the settings into the configuration.
func (i *identityFlags) apply(cfg *apiserver.Config) error {
	cfg.AuthorizationModes, cfg.Authorization, cfg.Authentication = i.modes, i.authorization, i.authentication
	a := &cfg.Authentication
	a.NoAnonymous, a.NoTokenExtension = !i.anonymous, !i.extendTokens
	a.AnonymousGiven = i.set.Changed("anonymous-auth")
	if len(i.issuers) > 0 {
		cfg.Issuer, a.OtherIssuers = i.issuers[0], i.issuers[1:]
	}
	var problems []error
	if cfg.Authorization.ConfigFile != "" && i.given("authorization-mode", "authorization-webhook-") {
		problems = append(problems, errors.New("--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined"))
	}
	if a.ConfigFile != "" && i.given("oidc-") {
		problems = append(problems, errors.New("authentication-config file and oidc-* flags are mutually exclusive"))
	}
	if most := a.MaxTokenLifetime; most != 0 && (most < time.Hour || most > 1<<32*time.Second) {
		problems = append(problems, errors.New("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds"))
	}
	if a.SigningEndpoint != "" && len(i.keyFiles) > 0 {
		problems = append(problems, errors.New("can't set `--service-account-key-file` with `--service-account-signing-endpoint` (They are mutually exclusive)"))
	}
	for _, file := range i.keyFiles {
		keys, err := keyutil.PublicKeysFromFile(file)
		if err != nil {
			problems = append(problems, fmt.Errorf("--service-account-key-file: %w", err))
		}
		for _, key := range keys {
			cfg.PublicKeys = append(cfg.PublicKeys, key)
		}
	}
	switch o := i.oidc; {
	case o.IssuerURL != "":
		a.OIDC = &o
	case o.ClientID != "" || o.CAFile != "" || o.GroupsClaim != "" || len(o.RequiredClaims) > 0:
		problems = append(problems, errors.New("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"))
	}
	if w := i.tokenWebhook; w.ConfigFile != "" {
		a.Webhook = &w
	}
	return errors.Join(problems...)
}

// given reports whether a flag was set whose name begins so.
func (i *identityFlags) given(prefixes ...string) bool {
	found := false
	i.set.Visit(func(f *pflag.Flag) {
		found = found || slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(f.Name, prefix) })
	})
	return found
}
