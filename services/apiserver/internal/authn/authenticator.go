package authn

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"howdah.dev/kit/rpc"
)

// ErrNotMine is a verifier's answer to a credential that another one may know.
var ErrNotMine = errors.New("the credential is of another kind")

// TokenVerifier tells whose token it is. Its error says why the token is none; the client is told only that it is
// unauthorized.
type TokenVerifier interface {
	// Verify returns the bearer, and which of the audiences the token is meant for: at least one of them.
	Verify(ctx context.Context, token string, audiences []string) (*User, []string, error)
}

// PasswordVerifier tells whose name and password they are.
type PasswordVerifier interface {
	VerifyPassword(ctx context.Context, name, password string) (*User, error)
}

// Authenticator authenticates calls.
type Authenticator struct {
	// Tokens verify bearer tokens, in this order; the first that knows one decides.
	Tokens []TokenVerifier
	// Audiences are the API's own: a token that a request brings is meant for one of them.
	Audiences []string
	// Passwords verifies basic authentication; nil ignores it.
	Passwords PasswordVerifier
	// Anonymous lets requests without credentials in, as system:anonymous.
	Anonymous bool
	// AnonymousAt says for which requests Anonymous holds; nil is all.
	AnonymousAt func(ctx context.Context) bool
	// MayImpersonate fails with 403 unless the user has the access. A refusal that is not empty says why nobody may have it. Nil
	// lets nobody act as somebody else.
	MayImpersonate func(ctx context.Context, user *User, access Access, refusal string) error
	// Modes remembers by which mode users have become somebody else; nil remembers none.
	Modes *Modes
	// Metrics counts; may be nil.
	Metrics *Metrics
}

// ErrUnauthorized is the 401 that every failure of authentication answers.
func ErrUnauthorized() error { return apierrors.NewUnauthorized("Unauthorized") }

// Authenticate returns the user of a call. The connection's certificate names it, except where that is a gateway's: a
// gateway speaks for the user in the call's metadata, who is either one whom it verified itself (howdah-user, howdah-group,
// howdah-uid, howdah-extra) or the bearer of a token or password (authorization). Who may impersonate becomes whom it
// names (howdah-as-user and so on); where it may not, the error comes with who it is. A call that carries no credentials is the
// anonymous user's.
func (a *Authenticator) Authenticate(ctx context.Context) (*User, error) {
	start := time.Now()
	md, _ := metadata.FromIncomingContext(ctx)
	user, err := a.identify(ctx, md)
	a.Metrics.observe(user, err, time.Since(start))
	if err != nil {
		return nil, err
	}
	as, err := a.impersonate(ctx, md, user)
	if err != nil {
		return user, err
	}
	return as, nil
}

func (a *Authenticator) identify(ctx context.Context, md metadata.MD) (*User, error) {
	peer, ok := rpc.Peer(ctx)
	if !ok {
		return nil, ErrUnauthorized()
	}
	scheme, credential := authorization(md)
	switch {
	case strings.EqualFold(scheme, "bearer"):
		return a.Token(ctx, credential)
	case strings.EqualFold(scheme, "basic") && a.Passwords != nil:
		return a.password(ctx, credential)
	case !peer.In(GatewayGroup):
		return authenticated(&User{Name: peer.Name, Groups: peer.Groups}), nil
	}
	user := named(md)
	switch {
	case user.Name == "":
		return nil, ErrUnauthorized()
	case user.Name == AnonymousUser && user.In(UnauthenticatedGroup):
		if !a.Anonymous || a.AnonymousAt != nil && !a.AnonymousAt(ctx) {
			return nil, ErrUnauthorized()
		}
		return &User{Name: AnonymousUser, Groups: []string{UnauthenticatedGroup}}, nil
	}
	for _, pair := range md.Get("howdah-extra") {
		if key, value, ok := unescapePair(pair); ok {
			user.addExtra(key, value)
		}
	}
	return authenticated(user), nil
}

// named is whom the gateway verified. Names that gRPC carries as bytes only are under keys of their own.
func named(md metadata.MD) *User {
	form := ""
	if len(md.Get("howdah-user")) == 0 {
		form = "-bin"
	}
	return &User{Name: first(md, "howdah-user"+form), UID: first(md, "howdah-uid"+form), Groups: md.Get("howdah-group" + form)}
}

// Token returns the user of a bearer token that is meant for the API.
func (a *Authenticator) Token(ctx context.Context, token string) (*User, error) {
	user, _, err := a.Review(ctx, token, nil)
	if err != nil {
		return nil, ErrUnauthorized()
	}
	return user, nil
}

// Review returns the user of a bearer token, and which of the audiences it is meant for; none stands for the API's own. Its error
// says why the token is not good.
func (a *Authenticator) Review(ctx context.Context, token string, audiences []string) (*User, []string, error) {
	if len(audiences) == 0 {
		audiences = a.Audiences
	}
	token, _, _ = strings.Cut(token, " ") // as Kubernetes reads a header, what follows a space is no part of it
	errs := []error{errors.New("invalid bearer token")}
	for _, v := range a.Tokens {
		user, meant, err := v.Verify(ctx, token, audiences)
		if err == nil {
			return authenticated(user), meant, nil
		}
		if !errors.Is(err, ErrNotMine) {
			errs = append(errs, err)
		}
	}
	return nil, nil, utilerrors.NewAggregate(errs)
}

// Common returns the API's own audiences among the wanted: verifiers whose tokens name no audience take them for the API's.
func Common(own, wanted []string) []string {
	var both []string
	for _, w := range wanted {
		for _, o := range own {
			if w == o {
				both = append(both, w)
			}
		}
	}
	return both
}

// authenticated adds the group that everyone who is known belongs to.
func authenticated(u *User) *User {
	if u.Name != AnonymousUser && !u.In(AuthenticatedGroup) && !u.In(UnauthenticatedGroup) {
		u.Groups = append(u.Groups[:len(u.Groups):len(u.Groups)], AuthenticatedGroup)
	}
	return u
}

func (u *User) addExtra(key, value string) {
	if u.Extra == nil {
		u.Extra = map[string][]string{}
	}
	u.Extra[key] = append(u.Extra[key], value)
}

// authorization returns the scheme and the credential of the call, or nothing where the credential is empty.
func authorization(md metadata.MD) (scheme, credential string) {
	scheme, credential, _ = strings.Cut(strings.TrimSpace(first(md, "authorization")), " ")
	if credential = strings.TrimSpace(credential); credential == "" {
		return "", ""
	}
	return scheme, credential
}

// unescapePair reads "key=value", both escaped as in a query.
func unescapePair(text string) (key, value string, ok bool) {
	k, v, ok := strings.Cut(text, "=")
	key, err1 := url.QueryUnescape(k)
	value, err2 := url.QueryUnescape(v)
	return key, value, ok && err1 == nil && err2 == nil
}

func first(md metadata.MD, key string) string {
	if values := md.Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}
