// Package itself is who the API server is where it acts by itself: when it makes its bootstrap objects, keeps definitions and
// APIServices, or asks webhooks.
package itself

import (
	"context"

	"google.golang.org/grpc/metadata"

	"howdah.dev/kit/rpc"
	"howdah.dev/services/apiserver/internal/store"
)

// Name is its user agent, and so the field manager of what it writes. It is that of Kubernetes' API server: people and their tools meet
// it in conflicts and in managed fields.
const Name = "kube-apiserver"

// Context makes the calls of a context the API server's own, who may do everything, also where the database is over its quota.
func Context(ctx context.Context) context.Context {
	ctx = rpc.WithUser(ctx, rpc.User{Name: "system:apiserver", Groups: []string{"system:masters"}})
	return metadata.NewIncomingContext(store.Exempt(ctx), metadata.Pairs("user-agent", Name))
}
