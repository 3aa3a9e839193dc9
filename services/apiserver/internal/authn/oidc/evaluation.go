package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"

	"howdah.dev/services/apiserver/internal/authn"
)

// evaluation is the claims of a token as expressions see them.
type evaluation struct {
	ctx    context.Context
	claims traits.Mapper
}

// evaluation makes the claims a value for expressions, where there are any.
func (p *Provider) evaluation(ctx context.Context, c claims) (*evaluation, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var plain map[string]any
	if err := json.Unmarshal(text, &plain); err != nil { // numbers are doubles, as in Kubernetes
		return nil, err
	}
	return &evaluation{ctx, types.NewStringInterfaceMap(types.DefaultTypeAdapter, plain)}, nil
}

// text evaluates the mapping of what, a string.
func (e *evaluation) text(what string, m authenticationcel.ClaimsMapper) (string, error) {
	result, err := m.EvalClaimMapping(e.ctx, e.claims)
	if err != nil {
		return "", err
	}
	text, ok := result.EvalResult.Value().(string)
	if !ok {
		return "", fmt.Errorf("%s claim expression must return a string", what)
	}
	return text, nil
}

func (e *evaluation) texts(m authenticationcel.ClaimsMapper) ([]string, error) {
	result, err := m.EvalClaimMapping(e.ctx, e.claims)
	if err != nil {
		return nil, err
	}
	return stringsOf(result.EvalResult)
}

func (e *evaluation) all(m authenticationcel.ClaimsMapper) ([]ref.Val, error) {
	results, err := m.EvalClaimMappings(e.ctx, e.claims)
	return values(results), err
}

func (e *evaluation) user(m authenticationcel.UserMapper, u *authn.User) ([]ref.Val, error) {
	extra := map[string]any{}
	for key, texts := range u.Extra {
		extra[key] = texts
	}
	// Every field is there, also one that is empty: expressions need not ask whether it is.
	plain := map[string]any{"username": u.Name, "uid": u.UID, "groups": u.Groups, "extra": extra}
	results, err := m.EvalUser(e.ctx, types.NewStringInterfaceMap(types.DefaultTypeAdapter, plain))
	return values(results), err
}

func values(results []authenticationcel.EvaluationResult) (out []ref.Val) {
	for _, r := range results {
		out = append(out, r.EvalResult)
	}
	return out
}

var errNoStrings = errors.New("expression must return a string or a list of strings")

// stringsOf reads a string, a list of strings, or null. Empty strings are passed over.
func stringsOf(value ref.Val) ([]string, error) {
	switch v := value.(type) {
	case types.Null:
		return nil, nil
	case types.String:
		if v == "" {
			return nil, nil
		}
		return []string{string(v)}, nil
	case traits.Lister:
		var all []string
		for it := v.Iterator(); it.HasNext() == types.True; {
			text, ok := it.Next().Value().(string)
			if !ok {
				return nil, errNoStrings
			}
			if text != "" {
				all = append(all, text)
			}
		}
		return all, nil
	}
	return nil, errNoStrings
}
