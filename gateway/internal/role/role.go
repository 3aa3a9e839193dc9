// Package role serves howdah's own APIs under /howdah/v1/ as JSON, through
// the handlers that grpc-gateway generates.
package role

import (
	"context"
	"fmt"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"

	controllersv1 "howdah.dev/proto/gen/howdah/controllers/v1"
	schedulerv1 "howdah.dev/proto/gen/howdah/scheduler/v1"

	"howdah.dev/gateway/internal/answer"
)

// Handler serves the role APIs.
type Handler struct{ mux *runtime.ServeMux }

type callerKey struct{}

// New returns a handler that calls the roles; those without a connection have no paths.
func New(scheduler, controllers grpc.ClientConnInterface) (*Handler, error) {
	none := func(string) (string, bool) { return "", false }
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &runtime.JSONPb{
			MarshalOptions:   protojson.MarshalOptions{EmitUnpopulated: true},
			UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: true},
		}),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptSlash),
		runtime.WithIncomingHeaderMatcher(none),
		runtime.WithOutgoingHeaderMatcher(none),
		runtime.WithMetadata(func(ctx context.Context, _ *http.Request) metadata.MD {
			md, _ := ctx.Value(callerKey{}).(metadata.MD)
			return md
		}),
		runtime.WithErrorHandler(func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
			answer.Error(w, r, err)
		}),
		runtime.WithRoutingErrorHandler(func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
			if code == http.StatusMethodNotAllowed {
				answer.Status(w, r, answer.NotAllowed())
				return
			}
			answer.Status(w, r, answer.NotFound())
		}),
	)
	ctx := context.Background() // the connections are the caller's to close
	if scheduler != nil {
		if err := schedulerv1.RegisterSchedulerServiceHandlerClient(ctx, mux, schedulerv1.NewSchedulerServiceClient(scheduler)); err != nil {
			return nil, fmt.Errorf("register scheduler: %w", err)
		}
	}
	if controllers != nil {
		if err := controllersv1.RegisterControllerServiceHandlerClient(ctx, mux, controllersv1.NewControllerServiceClient(controllers)); err != nil {
			return nil, fmt.Errorf("register controllers: %w", err)
		}
	}
	return &Handler{mux}, nil
}

// Serve answers a request; md says who asks.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, md metadata.MD) {
	r = r.Clone(context.WithValue(r.Context(), callerKey{}, md))
	for name := range r.Header {
		if name != "Accept" && name != "Content-Type" {
			r.Header.Del(name) // who asks is in md, and nowhere else
		}
	}
	h.mux.ServeHTTP(w, r)
}
