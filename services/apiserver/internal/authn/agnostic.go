package authn

import (
	"context"
	"fmt"
)

// Agnostic makes a verifier of tokens that name no audience: they are meant for the API's own.
type Agnostic struct {
	Audiences []string
	Holder    func(ctx context.Context, token string) (*User, error)
}

// Verify implements TokenVerifier.
func (a Agnostic) Verify(ctx context.Context, token string, audiences []string) (*User, []string, error) {
	user, err := a.Holder(ctx, token)
	if err != nil {
		return nil, nil, err
	}
	meant := Common(a.Audiences, audiences)
	if len(meant) == 0 {
		return nil, nil, fmt.Errorf("the token is for the audiences %q, and not for %q", a.Audiences, audiences)
	}
	return user, meant, nil
}
