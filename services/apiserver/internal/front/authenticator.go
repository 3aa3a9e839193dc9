package front

import (
	"context"

	"howdah.dev/services/apiserver/internal/authn"
)

// Authenticator finds out who a call or a token speaks for.
type Authenticator interface {
	Authenticate(ctx context.Context) (*authn.User, error)
	Token(ctx context.Context, token string) (*authn.User, error)
}

// Remembering is an authenticator that knows what the front has found out of a call already.
type Remembering struct{ Authenticator }

// Authenticate implements Authenticator.
func (r Remembering) Authenticate(ctx context.Context) (*authn.User, error) {
	if c, ok := ctx.Value(callKey{}).(*call); ok && (c.user != nil || c.refused != nil) {
		return c.user, c.refused
	}
	return r.Authenticator.Authenticate(ctx)
}
