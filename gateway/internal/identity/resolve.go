package identity

import (
	"context"

	"google.golang.org/grpc"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// authenticator judges tokens.
type authenticator interface {
	Authenticate(ctx context.Context, in *apiv1.AuthenticateRequest, opts ...grpc.CallOption) (*apiv1.AuthenticateResponse, error)
}

// Resolver puts a name to tokens, for the paths that the API server does not guard.
type Resolver struct{ authenticator authenticator }

// NewResolver returns a resolver that asks the authenticator.
func NewResolver(a authenticator) *Resolver { return &Resolver{a} }

// Resolve returns the caller by name. A token that is not good is 401.
func (r *Resolver) Resolve(ctx context.Context, c Caller) (Caller, error) {
	if c.Token == "" {
		return c, nil
	}
	resp, err := r.authenticator.Authenticate(ctx, &apiv1.AuthenticateRequest{Token: c.Token})
	if err != nil {
		return Caller{}, err
	}
	return Caller{User: resp.GetUser(), Groups: resp.GetGroups()}, nil
}
