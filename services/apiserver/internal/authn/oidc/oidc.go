// Package oidc knows the holders of ID tokens of an OpenID Connect provider. Fetching keys and checking signatures is
// coreos/go-oidc's.
package oidc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/authn"
)

// Config has the meaning of Kubernetes' --oidc flags.
type Config struct {
	IssuerURL, ClientID string
	// UsernameClaim is sub where it is empty.
	UsernameClaim, GroupsClaim string
	// UsernamePrefix "-" is none; empty is "<issuer>#", but for the claim email, which has none.
	UsernamePrefix, GroupsPrefix string
	// CAFile has the provider's authorities; empty takes the system's.
	CAFile string
	// SigningAlgs is RS256 where it is empty.
	SigningAlgs []string
	// RequiredClaims are claims, all strings, that a token must have.
	RequiredClaims map[string]string
	Clock          clock.WithTicker
}

// algorithms are those that a provider may sign with: none, and those with shared keys, are not among them.
var algorithms = []string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512"}

const (
	callTimeout  = 10 * time.Second
	firstRetry   = time.Second
	longestRetry = 30 * time.Second
)

// Provider verifies the tokens of one provider. Until Run has found it, its tokens are refused.
type Provider struct {
	Config
	client   *http.Client
	verifier atomic.Pointer[gooidc.IDTokenVerifier]
	found    chan struct{} // closed when there is a verifier
}

// New checks the settings, reporting all problems at once, and connects to nothing.
func New(cfg Config) (*Provider, error) {
	var problems []error
	u, err := url.Parse(cfg.IssuerURL)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		problems = append(problems, fmt.Errorf("'oidc-issuer-url' (%q) has invalid scheme (%q), require 'https'", cfg.IssuerURL, schemeOf(u)))
	}
	if cfg.ClientID == "" {
		problems = append(problems, errors.New("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"))
	}
	if cfg.UsernameClaim == "" {
		cfg.UsernameClaim = "sub"
	}
	if cfg.GroupsPrefix == "-" {
		cfg.GroupsPrefix = ""
	}
	switch {
	case cfg.UsernamePrefix == "-":
		cfg.UsernamePrefix = ""
	case cfg.UsernamePrefix == "" && cfg.UsernameClaim != "email":
		cfg.UsernamePrefix = cfg.IssuerURL + "#"
	}
	if len(cfg.SigningAlgs) == 0 {
		cfg.SigningAlgs = []string{"RS256"}
	}
	for _, alg := range cfg.SigningAlgs {
		if !slices.Contains(algorithms, alg) {
			problems = append(problems, fmt.Errorf("oidc: unsupported signing alg: %q", alg))
		}
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: callTimeout, IdleConnTimeout: time.Minute}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		pool := x509.NewCertPool()
		if err == nil && !pool.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("%s has no certificate", cfg.CAFile)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("oidc-ca-file: %w", err))
		}
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return &Provider{Config: cfg, client: &http.Client{Timeout: callTimeout, Transport: transport}, found: make(chan struct{})}, nil
}

func schemeOf(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Scheme
}

// Run finds the provider, again and again until it has, and stays until ctx ends: fetching keys depends on it.
func (p *Provider) Run(ctx context.Context) error {
	ctx = gooidc.ClientContext(ctx, p.client)
	for wait := firstRetry; ; wait = min(2*wait, longestRetry) {
		provider, err := gooidc.NewProvider(ctx, p.IssuerURL)
		if err == nil {
			p.verifier.Store(provider.VerifierContext(ctx, &gooidc.Config{
				ClientID: p.ClientID, SupportedSigningAlgs: p.SigningAlgs, Now: p.Clock.Now,
			}))
			close(p.found)
			<-ctx.Done()
			return ctx.Err()
		}
		slog.WarnContext(ctx, "find the OpenID Connect provider", "issuer", p.IssuerURL, "err", err)
		timer := p.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
	}
}

// Holder returns the user of an ID token.
func (p *Provider) Holder(ctx context.Context, token string) (*authn.User, error) {
	if issuer(token) != p.IssuerURL {
		return nil, authn.ErrNotMine
	}
	verifier := p.verifier.Load()
	if verifier == nil {
		return nil, errors.New("oidc: authenticator for issuer is not initialized")
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	id, err := verifier.Verify(ctx, token)
	if err != nil {
		return nil, fmt.Errorf("oidc: verify token: %w", err)
	}
	var c claims
	if err := id.Claims(&c); err != nil {
		return nil, fmt.Errorf("oidc: parse claims: %w", err)
	}
	return p.user(c)
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
