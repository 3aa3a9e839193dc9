package oidc

import (
	"encoding/json"
	"fmt"

	"howdah.dev/services/apiserver/internal/authn"
)

// claims are a token's, not yet understood.
type claims map[string]json.RawMessage

// text reads a claim that is a string.
func (c claims) text(name string) (value string, ok bool, err error) {
	raw, ok := c[name]
	if !ok {
		return "", false, nil
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		return "", true, fmt.Errorf("parse claim %s: %w", name, err)
	}
	return value, true, nil
}

// user is whom the claims of a good token name.
func (p *Provider) user(c claims) (*authn.User, error) {
	name, err := p.name(c)
	if err != nil {
		return nil, fmt.Errorf("oidc: %w", err)
	}
	user := &authn.User{Name: name}
	if user.Groups, err = p.groups(c); err != nil {
		return nil, fmt.Errorf("oidc: %w", err)
	}
	for claim, want := range p.RequiredClaims {
		got, ok, err := c.text(claim)
		switch {
		case err != nil:
			return nil, fmt.Errorf("oidc: %w", err)
		case !ok:
			return nil, fmt.Errorf("oidc: required claim %s not present in ID token", claim)
		case got != want:
			return nil, fmt.Errorf("oidc: required claim %s value does not match. Got = %s, want = %s", claim, got, want)
		}
	}
	if id, _, err := c.text("jti"); err == nil && id != "" {
		user.Extra = map[string][]string{"authentication.kubernetes.io/credential-id": {"JTI=" + id}}
	}
	return user, nil
}

func (p *Provider) name(c claims) (string, error) {
	name, ok, err := c.text(p.UsernameClaim)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "", fmt.Errorf("claim %q not present", p.UsernameClaim)
	}
	if raw, told := c["email_verified"]; told && p.UsernameClaim == "email" { // a provider that does not tell is trusted
		var verified bool
		if err := json.Unmarshal(raw, &verified); err != nil {
			return "", fmt.Errorf("parse 'email_verified' claim: %w", err)
		}
		if !verified {
			return "", fmt.Errorf("email not verified")
		}
	}
	if name == "" {
		return "", fmt.Errorf("claim %q is empty", p.UsernameClaim)
	}
	return p.UsernamePrefix + name, nil
}

// groups reads the claim, which is a string or a list of them.
func (p *Provider) groups(c claims) ([]string, error) {
	raw, ok := c[p.GroupsClaim]
	if p.GroupsClaim == "" || !ok {
		return nil, nil
	}
	var all []string
	if err := json.Unmarshal(raw, &all); err != nil {
		var one string
		if json.Unmarshal(raw, &one) != nil {
			return nil, fmt.Errorf("parse groups claim %q: %w", p.GroupsClaim, err)
		}
		all = []string{one}
	}
	for i := range all {
		all[i] = p.GroupsPrefix + all[i]
	}
	return all, nil
}
