package oidc

import (
	"context"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/authn"
)

// base is a configuration that takes the issuer's tokens for two audiences.
func base(i *issuing) Config {
	cfg := Config{Clock: clock.RealClock{}}
	cfg.Issuer = apiserver.Issuer{
		URL: i.URL, Audiences: []string{"kubectl", "other"}, AudienceMatchPolicy: apiserver.AudienceMatchPolicyMatchAny,
		CertificateAuthority: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})),
	}
	cfg.ClaimMappings.Username = apiserver.PrefixedClaimOrExpression{Claim: "sub", Prefix: new("")}
	return cfg
}

func TestConfiguredIssuers(t *testing.T) {
	t.Parallel()
	issuer, _ := newIssuing(t)
	expressions := func(c *Config) {
		c.ClaimMappings = apiserver.ClaimMappings{
			Username: apiserver.PrefixedClaimOrExpression{Expression: "'x:' + claims.sub"},
			Groups:   apiserver.PrefixedClaimOrExpression{Expression: "claims.roles.split(',')"},
			UID:      apiserver.ClaimOrExpression{Expression: "string(claims.number)"},
			Extra:    []apiserver.ExtraMapping{{Key: "acme.com/team", ValueExpression: "claims.?team.orValue('')"}, {Key: "acme.com/all", ValueExpression: "['a', '', 'b']"}},
		}
		c.ClaimValidationRules = []apiserver.ClaimValidationRule{{Claim: "hd", RequiredValue: "x"}, {Expression: "claims.number > 5", Message: "too small"}}
		c.UserValidationRules = []apiserver.UserValidationRule{{Expression: "!user.username.startsWith('x:system:')", Message: "reserved"}}
	}
	groups := func(c *Config) {
		c.ClaimMappings.Groups = apiserver.PrefixedClaimOrExpression{Claim: "groups", Prefix: new("g:")}
	}
	good := func(more map[string]any) map[string]any {
		all := map[string]any{"hd": "x", "number": 7, "roles": "r,q"}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	far := func(endpoint, token string) map[string]any {
		return map[string]any{"_claim_names": map[string]any{"groups": "src"}, "_claim_sources": map[string]any{"src": map[string]any{"endpoint": endpoint, "access_token": token}}}
	}
	with := func(claims map[string]any, key string, value any) map[string]any {
		claims[key] = value
		return claims
	}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		claims map[string]any
		want   *authn.User
		err    string
	}{
		{"the second audience", func(*Config) {}, map[string]any{"aud": []string{"third", "other"}}, &authn.User{Name: "s"}, ""},
		{"no audience", func(*Config) {}, map[string]any{"aud": "third"}, nil, "expected audience in"},
		{"expressions", expressions, good(nil), &authn.User{Name: "x:s", UID: "7", Groups: []string{"r", "q"}, Extra: map[string][]string{"acme.com/all": {"a", "b"}}}, ""},
		{"a rule of claims", expressions, good(map[string]any{"number": 3}), nil, "validation expression 'claims.number > 5' failed: too small"},
		{"a required value", expressions, good(map[string]any{"hd": "y"}), nil, "required claim hd value does not match"},
		{"a rule of users", expressions, good(map[string]any{"sub": "system:admin"}), nil, "validation expression '!user.username.startsWith('x:system:')' failed: reserved"},
		{"an expression that fails", expressions, map[string]any{"hd": "x", "number": 7}, nil, "error evaluating group claim expression"},
		{"a claim that stands elsewhere", groups, far(issuer.URL+"/groups", "letmein"), &authn.User{Name: "s", Groups: []string{"g:far", "g:away"}}, ""},
		{"a claim that is kept back", groups, far(issuer.URL+"/groups", "no"), nil,
			`oidc: could not expand distributed claims: while getting distributed claim "groups": error while getting distributed claim JWT: 403 Forbidden`},
		{"a claim without an endpoint", groups, far("", ""), &authn.User{Name: "s"}, ""},
		{"a user without groups", func(c *Config) {
			c.UserValidationRules = []apiserver.UserValidationRule{{Expression: "user.groups.all(g, g != 'x') && user.uid == '' && user.extra.size() == 0"}}
		}, nil, &authn.User{Name: "s"}, ""},
		{"empty groups of an expression", func(c *Config) { c.ClaimMappings.Groups.Expression = "['', 'a']" }, nil, &authn.User{Name: "s", Groups: []string{"a"}}, ""},
		{"an empty name of an expression", func(c *Config) {
			c.ClaimMappings.Username = apiserver.PrefixedClaimOrExpression{Expression: "claims.?none.orValue('')"}
		}, nil, nil, "oidc: empty username via CEL expression is not allowed"},
		{"a name that is no string", func(c *Config) {
			c.ClaimMappings.Username = apiserver.PrefixedClaimOrExpression{Expression: "claims.list"}
		}, map[string]any{"list": []string{"a"}}, nil, "error evaluating username claim expression: username claim expression must return a string"},
		{"a uid that is no string", func(c *Config) { c.ClaimMappings.UID.Expression = "claims.n" }, map[string]any{"n": 5}, nil, "uid claim expression must return a string"},
		{"extra that is no string", func(c *Config) {
			c.ClaimMappings.Extra = []apiserver.ExtraMapping{{Key: "a.b/c", ValueExpression: "claims.n"}}
		}, map[string]any{"n": 5}, nil, "error evaluating extra claim expression: claims.n: expression must return a string or a list of strings"},
		{"numbers are doubles", func(c *Config) { c.ClaimMappings.UID.Expression = "string(claims.n) + (claims.n == 5 ? '!' : '')" }, map[string]any{"n": 5}, &authn.User{Name: "s", UID: "5!"}, ""},
		{"a claim that is absent", func(c *Config) { c.ClaimMappings.Username.Claim = "none" }, nil, nil, `oidc: parse username claims "none": claim not present`},
		{"a uid that is absent", func(c *Config) { c.ClaimMappings.UID.Claim = "none" }, nil, nil, `oidc: parse uid claim "none": claim not present`},
		{"groups of another type", groups, map[string]any{"groups": []any{"a", 5}}, nil, `oidc: parse groups claim "groups": json: cannot unmarshal array into Go value of type string`},
		{"not good yet", func(*Config) {}, map[string]any{"nbf": time.Now().Add(4 * time.Minute).Unix()}, nil, "before the nbf (not before) time"},
		{"good by another clock", func(*Config) {}, map[string]any{"nbf": time.Now().Add(5 * time.Second).Unix()}, &authn.User{Name: "s"}, ""},
		{"an algorithm that is not taken", func(c *Config) { c.SigningAlgs = []string{"RS256", "PS256"} }, nil, nil,
			`oidc: verify token: oidc: id token signed with unsupported algorithm, expected ["PS256" "RS256"] got "ES256"`},
		{"one audience", func(c *Config) { c.Issuer.Audiences, c.Issuer.AudienceMatchPolicy = []string{"one"}, "" }, nil, nil, `oidc: expected audience "one" got ["kubectl"]`},
		{"a claim that is there already", groups, with(far(issuer.URL+"/groups", "no"), "groups", "here"), &authn.User{Name: "s", Groups: []string{"g:here"}}, ""},
		{"documents elsewhere", func(c *Config) {
			c.Issuer.URL, c.Issuer.DiscoveryURL = "https://issuer.example", issuer.URL+"/elsewhere"
		},
			map[string]any{"iss": "https://issuer.example"}, &authn.User{Name: "s"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := base(issuer)
			tt.change(&cfg)
			p, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			user, err := started(t, p).Holder(t.Context(), issuer.token(t, issuer.key, tt.claims))
			if tt.want == nil {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%v %v", user, err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, user); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
}

func TestSetTakesOtherProvidersOver(t *testing.T) {
	t.Parallel()
	first, _ := newIssuing(t)
	second, _ := newIssuing(t)
	provider := func(i *issuing) *Provider {
		p, err := New(base(i))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	one := provider(first)
	set, changes := NewSet([]*Provider{one}), make(chan Change)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx, changes) }()
	defer func() { cancel(); <-done }()
	select {
	case <-one.found:
	case <-time.After(time.Minute):
		t.Fatal("the provider is not found")
	}
	if _, err := set.Holder(t.Context(), first.token(t, first.key, nil)); err != nil {
		t.Error(err)
	}
	reply := make(chan error, 1)
	changes <- Change{[]*Provider{provider(second)}, reply}
	if err := <-reply; err != nil {
		t.Fatal(err)
	}
	if _, err := set.Holder(t.Context(), second.token(t, second.key, nil)); err != nil {
		t.Error(err)
	}
	if _, err := set.Holder(t.Context(), first.token(t, first.key, nil)); !errors.Is(err, authn.ErrNotMine) {
		t.Errorf("the provider before: %v", err)
	}
}
