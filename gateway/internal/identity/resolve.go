package identity

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// authenticator judges credentials.
type authenticator interface {
	Authenticate(ctx context.Context, in *apiv1.AuthenticateRequest, opts ...grpc.CallOption) (*apiv1.AuthenticateResponse, error)
}

// Resolver puts a name to callers, for the paths that the API server does not guard.
type Resolver struct{ authenticator authenticator }

// NewResolver returns a resolver that asks the authenticator.
func NewResolver(a authenticator) *Resolver { return &Resolver{a} }

// Resolve returns the caller by name, as whom it wants to act, and decides whether it may have the access; nil asks only who it
// is. Credentials that are not good are 401; what it may not do, or may not act as, is 403.
func (r *Resolver) Resolve(ctx context.Context, c Caller, access *apiv1.Access, opts ...grpc.CallOption) (Caller, error) {
	ctx = metadata.NewOutgoingContext(ctx, c.Metadata())
	resp, err := r.authenticator.Authenticate(ctx, &apiv1.AuthenticateRequest{Access: access}, opts...)
	if err != nil {
		return Caller{}, err
	}
	caller := Caller{User: resp.GetUser(), Groups: resp.GetGroups(), UID: resp.GetUid()}
	for _, e := range resp.GetExtra() {
		for _, value := range e.GetValues() {
			caller.Extra = append(caller.Extra, Extra{e.GetKey(), value})
		}
	}
	return caller, nil
}
