package authn

import (
	"context"
	"encoding/base64"
	"strings"
)

// password returns the user of a basic credential: base64 of "name:password".
func (a *Authenticator) password(ctx context.Context, credential string) (*User, error) {
	raw, err := base64.StdEncoding.DecodeString(credential)
	if err != nil {
		return nil, ErrUnauthorized()
	}
	name, password, ok := strings.Cut(string(raw), ":")
	if !ok {
		return nil, ErrUnauthorized()
	}
	user, err := a.Passwords.VerifyPassword(ctx, name, password)
	if err != nil {
		return nil, ErrUnauthorized()
	}
	return authenticated(user), nil
}
