package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/authz/abac"
	authzhook "howdah.dev/services/apiserver/internal/authz/hook"
	"howdah.dev/services/apiserver/internal/nodeauthz"
	"howdah.dev/services/apiserver/internal/rbac"
	"howdah.dev/services/apiserver/internal/rbacpolicy"
	"howdah.dev/services/apiserver/internal/remote"
	"howdah.dev/services/apiserver/internal/structured"
)

// authorizers makes chains of authorizers.
type authorizers struct {
	s         *Server
	modes     authz.Modes // all but webhooks, which are made anew
	decisions *authz.Decisions
	hooks     *authzhook.Metrics
	compiler  authorizationcel.Compiler
}

// authorizer returns the chain that is configured, and the admission plugin that keeps users from granting more than they hold.
func (s *Server) authorizer(roles rbac.Source) (*authz.Metered, *rbac.Guard, error) {
	a := &authorizers{s: s, decisions: authz.NewDecisions(s.cfg.Registerer), hooks: authzhook.NewMetrics(s.cfg.Registerer), modes: authz.Modes{
		"Node": nodeauthz.Authorizer{Relations: nodeauthz.Pods{Objects: s.known, Fresh: s.cache.Fresh}, Rules: rbacpolicy.NodeRules(s.cfg.Features)},
		"RBAC": rbac.Authorizer{Source: roles, Ready: s.ready}, "AlwaysAllow": authz.AlwaysAllow{}, "AlwaysDeny": authz.AlwaysDeny{},
	}}
	build := a.ofFlags
	if s.cfg.Authorization.ConfigFile != "" {
		build = a.ofFile
	}
	chain, err := build()
	if err != nil {
		return nil, nil, err
	}
	return authz.Meter(chain, s.cfg.Registerer), &rbac.Guard{Source: roles, Authorizer: chain}, nil
}

// always allows what no mode is asked about.
var always = authz.Chain{authz.Groups{authn.MastersGroup}, authz.Gateways{}}

// ofFlags is the chain of the configured modes.
func (a *authorizers) ofFlags() (authz.Chain, error) {
	cfg, on := a.s.cfg.Authorization, func(mode string) bool { return slices.Contains(a.s.cfg.AuthorizationModes, mode) }
	switch {
	case on("Webhook") && cfg.Webhook.ConfigFile == "":
		return nil, errors.New("authorization-mode Webhook's authorization config file not passed")
	case !on("Webhook") && cfg.Webhook.ConfigFile != "":
		return nil, errors.New("cannot specify --authorization-webhook-config-file without mode Webhook")
	}
	if err := a.addABAC(); err != nil {
		return nil, err
	}
	if on("Webhook") {
		hook, err := a.hook(cfg.Webhook.ConfigFile, 0, authzhook.Config{
			Name: "default", Version: cfg.Webhook.Version, AuthorizedTTL: cfg.Webhook.AuthorizedTTL, UnauthorizedTTL: cfg.Webhook.UnauthorizedTTL,
		})
		if err != nil {
			return nil, err
		}
		a.modes["Webhook"] = hook
	}
	named := authz.Modes{}
	for mode, authorizer := range a.modes {
		name := strings.ToLower(mode)
		if mode == "Webhook" {
			name = "default"
		}
		named[mode] = a.decisions.Named(mode, name, authorizer)
	}
	return named.Chain(a.s.cfg.AuthorizationModes, always)
}

// addABAC adds the mode ABAC, where it is on.
func (a *authorizers) addABAC() error {
	file, on := a.s.cfg.Authorization.PolicyFile, slices.Contains(a.s.cfg.AuthorizationModes, "ABAC")
	switch {
	case on && file == "":
		return errors.New("authorization-mode ABAC's authorization policy file not passed")
	case !on && file != "":
		return errors.New("cannot specify --authorization-policy-file without mode ABAC")
	case !on:
		return nil
	}
	policies, err := abac.Load(file)
	a.modes["ABAC"] = policies
	return err
}

func (a *authorizers) hook(kubeconfig string, timeout time.Duration, cfg authzhook.Config) (*authzhook.Authorizer, error) {
	client, err := remote.New(remote.Config{
		Kubeconfig: kubeconfig, Version: schema.GroupVersion{Group: authorizationv1.GroupName, Version: cfg.Version}, Timeout: timeout, Clock: a.s.cfg.Clock,
	})
	if err != nil {
		return nil, err
	}
	cfg.Poster, cfg.Clock, cfg.Metrics = client, a.s.cfg.Clock, a.hooks
	return authzhook.New(cfg)
}

// knownTypes are the authorizers that a file may name.
var knownTypes = []string{"ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"}

// ofFile is the chain of the AuthorizationConfiguration, which is followed.
func (a *authorizers) ofFile() (authz.Chain, error) {
	a.compiler = authorizationcel.NewDefaultCompiler()
	file := &structured.File{Path: a.s.cfg.Authorization.ConfigFile, Subject: "authorization", Clock: a.s.cfg.Clock, Registerer: a.s.cfg.identified()}
	cfg, err := structured.Authorization(file.Path, a.compiler, knownTypes)
	if err != nil {
		return nil, err
	}
	// What else depends on the modes is set up once.
	a.s.cfg.AuthorizationModes = modesOf(cfg)
	if err := a.addABAC(); err != nil {
		return nil, err
	}
	chain, err := a.chain(cfg)
	if err != nil {
		return nil, fmt.Errorf("invalid authorization config: %w", err)
	}
	current := authz.NewSwitch(chain)
	a.s.background = append(a.s.background, func(ctx context.Context) error {
		return file.Follow(ctx, func(context.Context) error { return a.reload(file.Path, current) })
	})
	return authz.Chain{current}, nil
}

func (a *authorizers) reload(path string, current *authz.Switch) error {
	cfg, err := structured.Authorization(path, a.compiler, knownTypes)
	if err != nil {
		return err
	}
	if was, is := a.s.cfg.AuthorizationModes, modesOf(cfg); !slices.Equal(slices.Sorted(slices.Values(was)), slices.Sorted(slices.Values(is))) {
		return fmt.Errorf("authorizers of the types %v cannot become %v without a restart; only webhooks and the order may change", was, is)
	}
	chain, err := a.chain(cfg)
	if err != nil {
		return err
	}
	current.Put(chain)
	return nil
}

// modesOf are the types in the file, but for webhooks.
func modesOf(cfg *apiserver.AuthorizationConfiguration) (modes []string) {
	for _, one := range cfg.Authorizers {
		if one.Type != apiserver.TypeWebhook {
			modes = append(modes, string(one.Type))
		}
	}
	return modes
}

func (a *authorizers) chain(cfg *apiserver.AuthorizationConfiguration) (authz.Chain, error) {
	chain := authz.Chain{always}
	for _, one := range cfg.Authorizers {
		next := a.modes[string(one.Type)]
		if one.Type == apiserver.TypeWebhook {
			hook, err := a.configured(one)
			if err != nil {
				return nil, fmt.Errorf("authorizer %q: %w", one.Name, err)
			}
			next = hook
		}
		chain = append(chain, a.decisions.Named(string(one.Type), one.Name, next))
	}
	return chain, nil
}

func (a *authorizers) configured(one apiserver.AuthorizerConfiguration) (*authzhook.Authorizer, error) {
	w := one.Webhook
	if w.ConnectionInfo.Type != apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile {
		return nil, fmt.Errorf("connectionInfo.type %s is not supported, use %s", w.ConnectionInfo.Type, apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile)
	}
	cfg := authzhook.Config{
		Name: one.Name, Version: w.SubjectAccessReviewVersion, DenyOnError: w.FailurePolicy == apiserver.FailurePolicyDeny,
	}
	if w.CacheAuthorizedRequests {
		cfg.AuthorizedTTL = w.AuthorizedTTL.Duration
	}
	if w.CacheUnauthorizedRequests {
		cfg.UnauthorizedTTL = w.UnauthorizedTTL.Duration
	}
	if len(w.MatchConditions) > 0 {
		matcher, errs := validation.ValidateAndCompileMatchConditions(a.compiler, w.MatchConditions)
		if len(errs) > 0 {
			return nil, errs.ToAggregate()
		}
		cfg.Matches = matcher
	}
	return a.hook(*w.ConnectionInfo.KubeConfigFile, w.Timeout.Duration, cfg)
}
