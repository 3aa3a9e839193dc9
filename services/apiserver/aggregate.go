package apiserver

import (
	"context"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// lateAPI is the object service, which is made after those that write through it.
type lateAPI struct{ server *Server }

// Create implements aggregate.API.
func (l lateAPI) Create(ctx context.Context, req *apiv1.CreateRequest) (*apiv1.CreateResponse, error) {
	return l.server.objects.Create(ctx, req)
}

// Patch implements aggregate.API.
func (l lateAPI) Patch(ctx context.Context, req *apiv1.PatchRequest) (*apiv1.PatchResponse, error) {
	return l.server.objects.Patch(ctx, req)
}

// Delete implements aggregate.API.
func (l lateAPI) Delete(ctx context.Context, req *apiv1.DeleteRequest) (*apiv1.DeleteResponse, error) {
	return l.server.objects.Delete(ctx, req)
}

// aggregate follows APIServices from when the server is ready.
func (s *Server) aggregate(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-s.ready:
		s.aggregator.Run(ctx)
	}
	return nil
}
