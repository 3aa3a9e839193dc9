package apiserver

import (
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	fielderr "k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"

	"howdah.dev/services/apiserver/internal/audit"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authn/oidc"
	"howdah.dev/services/apiserver/internal/structured"
)

// holder tells whose a token is that names no audience of the cluster's.
type holder = func(context.Context, string) (*authn.User, error)

// addIssuers adds the issuers of ID tokens that flags or a file name, and what the file says of anonymous requests.
func (s *Server) addIssuers(a *authn.Authenticator, own []string, add func(holder)) error {
	cfg := s.cfg.Authentication
	switch {
	case cfg.ConfigFile != "" && cfg.OIDC != nil:
		return errors.New("authentication-config file and oidc-* flags are mutually exclusive")
	case cfg.ConfigFile != "":
		return s.addConfigured(a, own, add)
	case cfg.OIDC == nil:
		return nil
	}
	settings, err := oidc.Flags(*cfg.OIDC).Config()
	if err != nil {
		return err
	}
	settings.Clock, settings.Compiler = s.cfg.Clock, authenticationcel.NewDefaultCompiler()
	settings.Metrics = oidc.NewMetrics(s.cfg.Registerer, s.cfg.identified())
	asFile := &apiserver.AuthenticationConfiguration{JWT: []apiserver.JWTAuthenticator{settings.JWTAuthenticator}}
	if err := structured.Check(asFile, settings.Compiler, nil); err != nil {
		return err
	}
	provider, err := oidc.New(settings)
	if err != nil {
		return err
	}
	add(provider.Holder)
	s.background = append(s.background, provider.Run)
	return nil
}

// issuers are those of an AuthenticationConfiguration.
type issuers struct {
	s        *Server
	own      []string
	compiler authenticationcel.Compiler
	metrics  *oidc.Metrics
	first    *apiserver.AnonymousAuthConfig
}

func (s *Server) addConfigured(a *authn.Authenticator, own []string, add func(holder)) error {
	i := &issuers{s: s, own: own, compiler: authenticationcel.NewDefaultCompiler(), metrics: oidc.NewMetrics(s.cfg.Registerer, s.cfg.identified())}
	file := &structured.File{Path: s.cfg.Authentication.ConfigFile, Subject: "authentication", Clock: s.cfg.Clock, Registerer: s.cfg.identified()}
	cfg, err := structured.Authentication(file.Path, i.compiler, own)
	if err != nil {
		return err
	}
	providers, err := i.providers(cfg)
	if err != nil {
		return err
	}
	i.first = cfg.Anonymous
	if anonymous := cfg.Anonymous; anonymous != nil {
		if s.cfg.Authentication.AnonymousGiven {
			return fielderr.Forbidden(fielderr.NewPath("anonymous"), "--anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file")
		}
		a.Anonymous = a.Anonymous && anonymous.Enabled
		if len(anonymous.Conditions) > 0 {
			a.AnonymousAt = func(ctx context.Context) bool {
				path := pathOf(ctx)
				return slices.ContainsFunc(anonymous.Conditions, func(c apiserver.AnonymousAuthCondition) bool { return c.Path == path })
			}
		}
	}
	set := oidc.NewSet(providers)
	add(set.Holder)
	changes := make(chan oidc.Change)
	s.background = append(s.background,
		func(ctx context.Context) error { return set.Run(ctx, changes) },
		func(ctx context.Context) error {
			return file.Follow(ctx, func(ctx context.Context) error { return i.reload(ctx, file.Path, changes) })
		})
	return nil
}

func (i *issuers) providers(cfg *apiserver.AuthenticationConfiguration) (all []*oidc.Provider, err error) {
	for _, one := range cfg.JWT {
		provider, err := oidc.New(oidc.Config{JWTAuthenticator: one, Compiler: i.compiler, Clock: i.s.cfg.Clock, Metrics: i.metrics})
		if err != nil {
			return nil, err
		}
		all = append(all, provider)
	}
	return all, nil
}

func (i *issuers) reload(ctx context.Context, path string, changes chan<- oidc.Change) error {
	cfg, err := structured.Authentication(path, i.compiler, i.own)
	if err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(cfg.Anonymous, i.first) {
		return fielderr.Forbidden(fielderr.NewPath("anonymous"), "changed from initial configuration file")
	}
	providers, err := i.providers(cfg)
	if err != nil {
		return err
	}
	reply := make(chan error, 1)
	select {
	case changes <- oidc.Change{Providers: providers, Reply: reply}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pathOf is the path of the request's URL.
func pathOf(ctx context.Context) string {
	if path := authn.AskedPath(ctx); path != "" {
		return path
	}
	path, _, _ := strings.Cut(audit.OriginOf(ctx).URI, "?")
	return path
}
