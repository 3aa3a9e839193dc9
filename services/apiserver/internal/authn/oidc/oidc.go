// Package oidc knows the holders of ID tokens of OpenID Connect providers. Fetching keys and checking signatures is
// coreos/go-oidc's; what a configuration may say, and its expressions, are Kubernetes' own.
package oidc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/authn"
)

// Config is one issuer of tokens, and how its claims are read.
type Config struct {
	apiserver.JWTAuthenticator
	// SigningAlgs is all that are asymmetric where it is empty.
	SigningAlgs []string
	// Compiler compiles the expressions; it may be shared.
	Compiler authenticationcel.Compiler
	Clock    clock.WithTicker
	Metrics  *Metrics
}

const (
	callTimeout  = 10 * time.Second
	firstRetry   = time.Second
	longestRetry = 30 * time.Second
	// largest is how much of a document or a token is read, in bytes.
	largest = 1 << 20
)

// Provider verifies the tokens of one issuer. Until Run has found it, its tokens are refused.
type Provider struct {
	Config
	mapper   authenticationcel.CELMapper
	client   *http.Client
	verifier atomic.Pointer[gooidc.IDTokenVerifier]
	found    chan struct{} // closed when there is a verifier
	others   others
}

// New checks the settings, reporting all problems at once, and connects to nothing.
func New(cfg Config) (*Provider, error) {
	if cfg.Compiler == nil {
		cfg.Compiler = authenticationcel.NewDefaultCompiler()
	}
	mapper, errs := validation.CompileAndValidateJWTAuthenticator(cfg.Compiler, cfg.JWTAuthenticator, nil)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	if cfg.Issuer.EgressSelectorType != "" {
		// Kubernetes' words where no file of egress selectors says how to connect.
		return nil, fmt.Errorf("oidc: egress lookup required with egress selector type %q", cfg.Issuer.EgressSelectorType)
	}
	if len(cfg.SigningAlgs) == 0 {
		cfg.SigningAlgs = algorithms
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: callTimeout, IdleConnTimeout: time.Minute}
	if cfg.Issuer.CertificateAuthority != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(cfg.Issuer.CertificateAuthority)) {
			return nil, errors.New("issuer.certificateAuthority has no certificate")
		}
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	return &Provider{
		Config: cfg, mapper: mapper, client: &http.Client{Timeout: callTimeout, Transport: transport}, found: make(chan struct{}),
	}, nil
}

// Run finds the provider, again and again until it has, and stays until ctx ends: fetching keys depends on it.
func (p *Provider) Run(ctx context.Context) error {
	ctx = gooidc.ClientContext(ctx, p.client)
	p.others.start(ctx)
	for wait := firstRetry; ; wait = min(2*wait, longestRetry) {
		verifier, err := p.find(ctx, p.Issuer.URL, p.Issuer.DiscoveryURL)
		if err == nil {
			p.verifier.Store(verifier)
			close(p.found)
			<-ctx.Done()
			return ctx.Err()
		}
		slog.WarnContext(ctx, "find the OpenID Connect provider", "issuer", p.Issuer.URL, "err", err)
		timer := p.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
	}
}

// find reads an issuer's discovery document, at its usual place where no other is given, and returns what verifies its tokens.
func (p *Provider) find(ctx context.Context, issuer, at string) (*gooidc.IDTokenVerifier, error) {
	if at == "" {
		at = strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
	}
	text, _, err := p.fetch(ctx, "discovery document", at, "")
	if err != nil {
		return nil, err
	}
	var document struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("oidc: failed to decode provider discovery object: %w", err)
	}
	if document.Issuer != issuer {
		return nil, fmt.Errorf("oidc: issuer did not match the issuer returned by provider, expected %q got %q", issuer, document.Issuer)
	}
	if issuer == p.Issuer.URL { // not one of distributed claims
		client := *p.client
		client.Transport = &keyFetches{p.client.Transport, p, ctx, document.Keys}
		ctx = gooidc.ClientContext(ctx, &client)
	}
	provider := (&gooidc.ProviderConfig{IssuerURL: issuer, JWKSURL: document.Keys}).NewProvider(ctx)
	return provider.VerifierContext(ctx, &gooidc.Config{SkipClientIDCheck: true, SupportedSigningAlgs: p.SigningAlgs, Now: p.Clock.Now}), nil
}

// fetch gets what is named, with a bearer token where one is given.
func (p *Provider) fetch(ctx context.Context, what, url, token string) (body []byte, contentType string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, largest))
	if err != nil {
		return nil, "", err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, "", fmt.Errorf("error while getting %s: %s", what, resp.Status)
	}
	return body, resp.Header.Get("Content-Type"), nil
}

// Holder returns the user of an ID token.
func (p *Provider) Holder(ctx context.Context, token string) (*authn.User, error) {
	if issuer(token) != p.Issuer.URL {
		return nil, authn.ErrNotMine
	}
	began := p.Clock.Now()
	user, err := p.holder(ctx, token)
	p.Metrics.known(p.Issuer.URL, err, p.Clock.Since(began))
	return user, err
}

func (p *Provider) holder(ctx context.Context, token string) (*authn.User, error) {
	verifier := p.verifier.Load()
	if verifier == nil {
		return nil, errors.New("oidc: authenticator not initialized")
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := p.verified(ctx, verifier, token)
	if err != nil {
		return nil, fmt.Errorf("oidc: verify token: %w", err)
	}
	if err := p.expand(ctx, c); err != nil {
		return nil, fmt.Errorf("oidc: could not expand distributed claims: %w", err)
	}
	return p.user(ctx, c)
}

// verified returns the claims of a token that is good and meant for one of the audiences.
func (p *Provider) verified(ctx context.Context, verifier *gooidc.IDTokenVerifier, token string) (claims, error) {
	if alg := algorithm(token); alg != "" && !slices.Contains(p.SigningAlgs, alg) {
		return nil, fmt.Errorf("oidc: id token signed with unsupported algorithm, expected %q got %q", slices.Sorted(slices.Values(p.SigningAlgs)), alg)
	}
	id, err := verifier.Verify(ctx, token)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(id.Audience, func(a string) bool { return slices.Contains(p.Issuer.Audiences, a) }) {
		if len(p.Issuer.Audiences) == 1 {
			return nil, fmt.Errorf("oidc: expected audience %q got %q", p.Issuer.Audiences[0], id.Audience)
		}
		return nil, fmt.Errorf("oidc: expected audience in %q got %q", p.Issuer.Audiences, id.Audience)
	}
	var c claims
	if err := id.Claims(&c); err != nil {
		return nil, fmt.Errorf("parse claims: %w", err)
	}
	return c, p.begun(c)
}

// leeway is how far the clocks of the issuer and this server may be apart for a token that is not good yet. The library allows for more.
const leeway = time.Minute

// begun reports whether the token is good already, where it says since when.
func (p *Provider) begun(c claims) error {
	var since *float64
	if raw, ok := c["nbf"]; !ok || json.Unmarshal(raw, &since) != nil || since == nil {
		return nil
	}
	now, begin := p.Clock.Now(), time.Unix(int64(*since), 0)
	if now.Add(leeway).Before(begin) {
		return fmt.Errorf("oidc: current time %v before the nbf (not before) time: %v", now, begin)
	}
	return nil
}

// algorithm is what the token says that it is signed with.
func algorithm(token string) string {
	header, _, _ := strings.Cut(token, ".")
	body, err := base64.RawURLEncoding.DecodeString(header)
	var h struct {
		Algorithm string `json:"alg"`
	}
	if err != nil || json.Unmarshal(body, &h) != nil {
		return ""
	}
	return h.Algorithm
}

// issuer is whose token it claims to be.
func issuer(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	var c struct {
		Issuer string `json:"iss"`
	}
	if err != nil || json.Unmarshal(body, &c) != nil {
		return ""
	}
	return c.Issuer
}
