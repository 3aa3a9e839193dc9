package authn

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/rpc"
)

// TokenVerifier tells whose token it is. Its error says why the token is none; the client is told only that it is
// unauthorized.
type TokenVerifier interface {
	Verify(ctx context.Context, token string) (*User, error)
}

// Authenticator authenticates calls.
type Authenticator struct {
	// Tokens verifies bearer tokens; nil refuses all.
	Tokens TokenVerifier
}

// ErrUnauthorized is the 401 that every failure of authentication answers.
func ErrUnauthorized() error { return apierrors.NewUnauthorized("Unauthorized") }

// Authenticate returns the user of a call. The connection's certificate names it, except where that is a gateway's: a
// gateway speaks for the user in the call's metadata, who is either one whose certificate it verified itself
// (howdah-user, howdah-group, howdah-uid) or the bearer of a token (authorization). A gateway's call that carries neither, or
// that is for the anonymous user, is nobody's.
func (a *Authenticator) Authenticate(ctx context.Context) (*User, error) {
	peer, ok := rpc.Peer(ctx)
	if !ok {
		return nil, ErrUnauthorized()
	}
	md, _ := metadata.FromIncomingContext(ctx)
	if !peer.In(GatewayGroup) {
		if token, ok := bearer(md); ok {
			return a.Token(ctx, token)
		}
		return authenticated(&User{Name: peer.Name, Groups: peer.Groups}), nil
	}
	if token, ok := bearer(md); ok {
		return a.Token(ctx, token)
	}
	name := first(md, "howdah-user")
	if name == "" || name == AnonymousUser {
		return nil, ErrUnauthorized()
	}
	return authenticated(&User{Name: name, UID: first(md, "howdah-uid"), Groups: md.Get("howdah-group")}), nil
}

// Token returns the user of a bearer token.
func (a *Authenticator) Token(ctx context.Context, token string) (*User, error) {
	if a.Tokens == nil {
		return nil, ErrUnauthorized()
	}
	user, err := a.Tokens.Verify(ctx, token)
	if err != nil {
		return nil, ErrUnauthorized()
	}
	return authenticated(user), nil
}

// authenticated adds the group that everyone who is known belongs to.
func authenticated(u *User) *User {
	if !u.In(AuthenticatedGroup) {
		u.Groups = append(u.Groups[:len(u.Groups):len(u.Groups)], AuthenticatedGroup)
	}
	return u
}

func bearer(md metadata.MD) (string, bool) {
	scheme, token, ok := strings.Cut(strings.TrimSpace(first(md, "authorization")), " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return "", false
	}
	token = strings.TrimSpace(token)
	return token, token != ""
}

func first(md metadata.MD, key string) string {
	if values := md.Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}
