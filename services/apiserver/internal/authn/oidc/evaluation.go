package oidc

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
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
	if err := utiljson.Unmarshal(text, &plain); err != nil {
		return nil, err
	}
	return &evaluation{ctx, types.NewStringInterfaceMap(types.DefaultTypeAdapter, plain)}, nil
}

func (e *evaluation) text(m authenticationcel.ClaimsMapper) (string, error) {
	result, err := m.EvalClaimMapping(e.ctx, e.claims)
	if err != nil {
		return "", err
	}
	text, ok := result.EvalResult.Value().(string)
	if !ok {
		return "", fmt.Errorf("the expression must return a string, and returned %s", result.EvalResult.Type().TypeName())
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
	info := &authenticationv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups, Extra: map[string]authenticationv1.ExtraValue{}}
	for key, texts := range u.Extra {
		info.Extra[key] = texts
	}
	plain, err := runtime.DefaultUnstructuredConverter.ToUnstructured(info)
	if err != nil {
		return nil, err
	}
	results, err := m.EvalUser(e.ctx, types.NewStringInterfaceMap(types.DefaultTypeAdapter, plain))
	return values(results), err
}

func values(results []authenticationcel.EvaluationResult) (out []ref.Val) {
	for _, r := range results {
		out = append(out, r.EvalResult)
	}
	return out
}

// stringsOf reads a string, a list of strings, or null.
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
				return nil, fmt.Errorf("the expression must return a string or a list of strings")
			}
			all = append(all, text)
		}
		return all, nil
	}
	return nil, fmt.Errorf("the expression must return a string or a list of strings, and returned %s", value.Type().TypeName())
}
