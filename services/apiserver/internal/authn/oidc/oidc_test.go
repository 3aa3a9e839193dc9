package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/authn"
)

// issuing is a provider that signs whatever it is told to.
type issuing struct {
	*httptest.Server
	key *ecdsa.PrivateKey
}

func newIssuing(t *testing.T) (*issuing, Flags) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuing{key: key}
	i.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"}})
		case "/elsewhere":
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": "https://issuer.example", "jwks_uri": i.URL + "/keys"})
		case "/groups":
			if r.Header.Get("Authorization") != "Bearer letmein" {
				http.Error(w, "who?", http.StatusForbidden)
				return
			}
			w.Header().Set("Content-Type", "application/jwt")
			_, _ = w.Write([]byte(i.token(t, key, map[string]any{"groups": []string{"far", "away"}})))
		case "/keys":
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(i.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return i, Flags{IssuerURL: i.URL, ClientID: "kubectl", CAFile: ca, SigningAlgs: []string{"ES256"}}
}

func (i *issuing) token(t *testing.T, key *ecdsa.PrivateKey, claims map[string]any) string {
	t.Helper()
	all := map[string]any{"iss": i.URL, "aud": "kubectl", "sub": "s", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix()}
	for k, v := range claims {
		all[k] = v
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(all)
	signed, err := signer.Sign(body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func made(t *testing.T, f Flags) *Provider {
	t.Helper()
	cfg, err := f.Config()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Clock = clock.RealClock{}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// started waits until the provider is found.
func started(t *testing.T, p *Provider) *Provider {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case <-p.found:
	case <-time.After(time.Minute):
		t.Fatal("the provider is not found")
	}
	return p
}

func TestHolder(t *testing.T) {
	t.Parallel()
	issuer, base := newIssuing(t)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*Flags)
		claims map[string]any
		want   *authn.User
		err    string
	}{
		{"by default", nil, nil, &authn.User{Name: issuer.URL + "#s"}, ""},
		{"with an id", nil, map[string]any{"jti": "7"}, &authn.User{Name: issuer.URL + "#s", Extra: map[string][]string{"authentication.kubernetes.io/credential-id": {"JTI=7"}}}, ""},
		{"claims and prefixes", func(c *Flags) {
			c.UsernameClaim, c.UsernamePrefix, c.GroupsClaim, c.GroupsPrefix = "user", "o:", "roles", "g:"
		},
			map[string]any{"user": "jane", "roles": []string{"a", "b"}}, &authn.User{Name: "o:jane", Groups: []string{"g:a", "g:b"}}, ""},
		{"one group, no prefix", func(c *Flags) { c.UsernamePrefix, c.GroupsClaim = "-", "roles" }, map[string]any{"roles": "a"}, &authn.User{Name: "s", Groups: []string{"a"}}, ""},
		{"email", func(c *Flags) { c.UsernameClaim = "email" }, map[string]any{"email": "j@x", "email_verified": true}, &authn.User{Name: "j@x"}, ""},
		{"email that is not verified", func(c *Flags) { c.UsernameClaim = "email" }, map[string]any{"email": "j@x", "email_verified": false}, nil, "oidc: email not verified"},
		{"no name", func(c *Flags) { c.UsernameClaim = "user" }, nil, nil, `parse username claims "user": claim not present`},
		{"groups that are none", func(c *Flags) { c.GroupsClaim = "roles" }, map[string]any{"roles": 5}, nil, "parse groups claim"},
		{"required", func(c *Flags) { c.RequiredClaims = map[string]string{"hd": "x"} }, map[string]any{"hd": "x"}, &authn.User{Name: issuer.URL + "#s"}, ""},
		{"required and missing", func(c *Flags) { c.RequiredClaims = map[string]string{"hd": "x"} }, nil, nil, "required claim hd not present in ID token"},
		{"required and different", func(c *Flags) { c.RequiredClaims = map[string]string{"hd": "x"} }, map[string]any{"hd": "y"}, nil, "required claim hd value does not match. Got = y, want = x"},
		{"another audience", nil, map[string]any{"aud": "other"}, nil, "oidc: verify token"},
		{"expired", nil, map[string]any{"exp": 1}, nil, "oidc: verify token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := base
			if c.change != nil {
				c.change(&cfg)
			}
			user, err := started(t, made(t, cfg)).Holder(t.Context(), issuer.token(t, issuer.key, c.claims))
			if c.want == nil {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v %v", user, err)
				}
				return
			}
			if diff := cmp.Diff(c.want, user); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
	p := started(t, made(t, base))
	if _, err := p.Holder(t.Context(), issuer.token(t, stranger, nil)); err == nil || errors.Is(err, authn.ErrNotMine) {
		t.Errorf("signed by another: %v", err)
	}
	for _, token := range []string{"", "x", "a.b.c", issuer.token(t, issuer.key, map[string]any{"iss": "https://other"})} {
		if _, err := p.Holder(t.Context(), token); !errors.Is(err, authn.ErrNotMine) {
			t.Errorf("%q: %v", token, err)
		}
	}
	if _, err := made(t, base).Holder(t.Context(), issuer.token(t, issuer.key, nil)); err == nil || !strings.Contains(err.Error(), "not initialized") {
		t.Errorf("before the provider is found: %v", err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	_, err := Flags{IssuerURL: "http://x", SigningAlgs: []string{"HS256"}, CAFile: "/nonexistent"}.Config()
	for _, want := range []string{"oidc-issuer-url and oidc-client-id must be specified together", `oidc: unsupported signing alg: "HS256"`, "open /nonexistent: no such file"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}
