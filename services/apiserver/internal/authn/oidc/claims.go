package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apiserver/pkg/apis/apiserver"

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
	err = json.Unmarshal(raw, &value)
	return value, true, err
}

// user is whom the claims of a good token name.
func (p *Provider) user(ctx context.Context, c claims) (*authn.User, error) {
	e, err := p.evaluation(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("oidc: %w", err)
	}
	user := &authn.User{}
	for _, read := range []func(*authn.User, claims, *evaluation) error{p.name, p.groups, p.uid, p.extra, p.checkClaims} {
		if err := read(user, c, e); err != nil {
			return nil, fmt.Errorf("oidc: %w", err)
		}
	}
	if id, _, err := c.text("jti"); err == nil && id != "" {
		if user.Extra == nil {
			user.Extra = map[string][]string{}
		}
		user.Extra["authentication.kubernetes.io/credential-id"] = []string{"JTI=" + id}
	}
	if err := p.checkUser(user, e); err != nil {
		return nil, fmt.Errorf("oidc: error evaluating user info validation rule: %w", err)
	}
	return user, nil
}

func (p *Provider) name(user *authn.User, c claims, e *evaluation) (err error) {
	from := p.ClaimMappings.Username
	if from.Expression != "" {
		if user.Name, err = e.text("username", p.mapper.Username); err != nil {
			return fmt.Errorf("error evaluating username claim expression: %w", err)
		}
		if user.Name == "" {
			return errors.New("empty username via CEL expression is not allowed")
		}
		return nil
	}
	name, ok, err := c.text(from.Claim)
	if err == nil && !ok {
		err = errAbsent
	}
	if err != nil {
		return fmt.Errorf("parse username claims %q: %w", from.Claim, err)
	}
	if raw, told := c["email_verified"]; told && from.Claim == "email" { // a provider that does not tell is trusted
		var verified bool
		if err := json.Unmarshal(raw, &verified); err != nil {
			return fmt.Errorf("parse 'email_verified' claim: %w", err)
		}
		if !verified {
			return errors.New("email not verified")
		}
	}
	if name == "" { // Kubernetes lets a user without a name in, where no expression made it
		return fmt.Errorf("parse username claims %q: claim is empty", from.Claim)
	}
	user.Name = prefix(from) + name
	return nil
}

var errAbsent = errors.New("claim not present")

func prefix(from apiserver.PrefixedClaimOrExpression) string {
	if from.Prefix == nil {
		return ""
	}
	return *from.Prefix
}

// groups reads the claim, which is a string or a list of them.
func (p *Provider) groups(user *authn.User, c claims, e *evaluation) (err error) {
	from := p.ClaimMappings.Groups
	if from.Expression != "" {
		if user.Groups, err = e.texts(p.mapper.Groups); err != nil {
			return fmt.Errorf("error evaluating group claim expression: %w", err)
		}
		return nil
	}
	raw, ok := c[from.Claim]
	if from.Claim == "" || !ok {
		return nil
	}
	all, err := textsOf(raw)
	if err != nil {
		return fmt.Errorf("parse groups claim %q: %w", from.Claim, err)
	}
	for i := range all {
		all[i] = prefix(from) + all[i]
	}
	user.Groups = all
	return nil
}

func textsOf(raw json.RawMessage) ([]string, error) {
	var all []string
	if json.Unmarshal(raw, &all) == nil {
		return all, nil
	}
	var one string
	if err := json.Unmarshal(raw, &one); err != nil {
		return nil, err
	}
	return []string{one}, nil
}

func (p *Provider) uid(user *authn.User, c claims, e *evaluation) (err error) {
	from := p.ClaimMappings.UID
	switch {
	case from.Expression != "":
		if user.UID, err = e.text("uid", p.mapper.UID); err != nil {
			return fmt.Errorf("error evaluating uid claim expression: %w", err)
		}
	case from.Claim != "":
		var ok bool
		if user.UID, ok, err = c.text(from.Claim); err == nil && !ok {
			err = errAbsent
		}
		if err != nil {
			return fmt.Errorf("parse uid claim %q: %w", from.Claim, err)
		}
	}
	return err
}

func (p *Provider) extra(user *authn.User, _ claims, e *evaluation) error {
	if p.mapper.Extra == nil {
		return nil
	}
	values, err := e.all(p.mapper.Extra)
	if err != nil {
		return fmt.Errorf("error evaluating extra claim expression: %w", err)
	}
	for i, value := range values {
		texts, err := stringsOf(value)
		if err != nil {
			return fmt.Errorf("error evaluating extra claim expression: %s: %w", p.ClaimMappings.Extra[i].ValueExpression, err)
		}
		if len(texts) == 0 {
			continue
		}
		if user.Extra == nil {
			user.Extra = map[string][]string{}
		}
		user.Extra[p.ClaimMappings.Extra[i].Key] = texts
	}
	return nil
}

// checkClaims applies the rules that a token's claims must keep.
func (p *Provider) checkClaims(_ *authn.User, c claims, e *evaluation) error {
	var expressions []apiserver.ClaimValidationRule
	for _, rule := range p.ClaimValidationRules {
		if rule.Expression != "" {
			expressions = append(expressions, rule)
			continue
		}
		got, ok, err := c.text(rule.Claim)
		switch {
		case err != nil:
			return fmt.Errorf("parse claim %s: %w", rule.Claim, err)
		case !ok:
			return fmt.Errorf("required claim %s not present in ID token", rule.Claim)
		case got != rule.RequiredValue:
			return fmt.Errorf("required claim %s value does not match. Got = %s, want = %s", rule.Claim, got, rule.RequiredValue)
		}
	}
	if p.mapper.ClaimValidationRules == nil {
		return nil
	}
	values, err := e.all(p.mapper.ClaimValidationRules)
	if err != nil {
		return fmt.Errorf("error evaluating claim validation expression: %w", err)
	}
	for i, value := range values {
		if value.Value() != true {
			return fmt.Errorf("error evaluating claim validation expression: validation expression '%s' failed: %s", expressions[i].Expression, expressions[i].Message)
		}
	}
	return nil
}

// checkUser applies the rules that the user must keep.
func (p *Provider) checkUser(user *authn.User, e *evaluation) error {
	if p.mapper.UserValidationRules == nil {
		return nil
	}
	values, err := e.user(p.mapper.UserValidationRules, user)
	if err != nil {
		return err
	}
	for i, value := range values {
		if value.Value() != true {
			return fmt.Errorf("validation expression '%s' failed: %s", p.UserValidationRules[i].Expression, p.UserValidationRules[i].Message)
		}
	}
	return nil
}
