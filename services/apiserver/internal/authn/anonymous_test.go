package authn

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/rpc"
)

func TestGatewaySpeaksForTheUserInItsMetadata(t *testing.T) {
	t.Parallel()
	gateway := rpc.WithUser(t.Context(), rpc.User{Name: "howdah:gateway", Groups: []string{GatewayGroup}})
	tests := []struct {
		name string
		md   metadata.MD
		want string // empty is 401
	}{
		{"a certificate's user", metadata.Pairs("howdah-user", "jane", "howdah-group", "devs"), "jane"},
		{"a certificate's user in other letters", metadata.Pairs("howdah-user-bin", "jürgen", "howdah-group-bin", "devs"), "jürgen"},
		{"the anonymous user", metadata.Pairs("howdah-user", "system:anonymous", "howdah-group", "system:unauthenticated", "howdah-group", "system:masters"), "system:anonymous"},
		{"a certificate of that name", metadata.Pairs("howdah-user", "system:anonymous"), "system:anonymous"},
		{"nobody", nil, ""},
		{"a password that nobody verifies", metadata.Pairs("authorization", "Basic YTpi", "howdah-user", "system:anonymous", "howdah-group", "system:unauthenticated"), "system:anonymous"},
		{"a token that nobody can verify", metadata.Pairs("authorization", "Bearer x", "howdah-user", "jane"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			user, err := (&Authenticator{Anonymous: true}).Authenticate(metadata.NewIncomingContext(gateway, tt.md))
			if tt.want == "" {
				if !apierrors.IsUnauthorized(err) {
					t.Fatalf("got %v %v, want 401", user, err)
				}
				return
			}
			if err != nil || user.Name != tt.want || user.In(MastersGroup) || user.In(AuthenticatedGroup) == (tt.want == AnonymousUser) {
				t.Fatalf("got %v %v", user, err)
			}
		})
	}
}

// fixed knows every token as one user's.
type fixed struct{ user User }

func (f fixed) Verify(_ context.Context, _ string, audiences []string) (*User, []string, error) {
	user := f.user
	return &user, audiences, nil
}

func TestWhoGetsTheGroupOfAuthenticatedUsers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		user User
		want string
	}{
		{User{Name: "jane"}, "[system:authenticated]"},
		{User{Name: "jane", Groups: []string{"devs"}}, "[devs system:authenticated]"},
		{User{Name: "jane", Groups: []string{UnauthenticatedGroup}}, "[system:unauthenticated]"},
		{User{Name: AnonymousUser}, "[]"},
	} {
		user, err := (&Authenticator{Tokens: []TokenVerifier{fixed{c.user}}}).Token(t.Context(), "x")
		if err != nil || fmt.Sprint(user.Groups) != c.want {
			t.Errorf("%v: %v %v", c.user, user, err)
		}
	}
}
