package rest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/gateway/internal/answer"
)

// newMux returns the generated handlers of ObjectService behind our hooks.
// ctx ends nothing here: the connection is the caller's.
func newMux(client apiv1.ObjectServiceClient) (*runtime.ServeMux, error) {
	none := func(string) (string, bool) { return "", false }
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, passThrough{}),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptSlash),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableChunkedEncoding(), // net/http knows when to chunk
		runtime.WithIncomingHeaderMatcher(none),
		runtime.WithOutgoingHeaderMatcher(none),
		runtime.WithMetadata(func(ctx context.Context, _ *http.Request) metadata.MD { return exchangeOf(ctx).metadata }),
		runtime.WithErrorHandler(keepError),
		runtime.WithStreamErrorHandler(func(ctx context.Context, err error) *status.Status {
			exchangeOf(ctx).err = err
			return status.New(status.Code(err), "")
		}),
		runtime.WithRoutingErrorHandler(func(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, _ http.ResponseWriter, _ *http.Request, code int) {
			s := answer.NotFound()
			if code == http.StatusMethodNotAllowed {
				s = answer.NotAllowed()
			}
			exchangeOf(ctx).err = &apierrors.StatusError{ErrStatus: s}
		}),
		runtime.WithForwardResponseOption(prepare),
		runtime.WithForwardResponseRewriter(rewrite),
	)
	if err := apiv1.RegisterObjectServiceHandlerClient(context.Background(), mux, client); err != nil {
		return nil, fmt.Errorf("register handlers: %w", err)
	}
	return mux, nil
}

// keepError leaves the answer to the handler.
func keepError(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, _ *http.Request, err error) {
	exchangeOf(ctx).err = err
	if md, ok := runtime.ServerMetadataFromContext(ctx); ok {
		addWarnings(w.Header(), md.HeaderMD)
	}
}

// prepare sets headers and the code. The mux calls it for a message that
// answers a call, without one when a stream begins, and for every message of a stream.
func prepare(ctx context.Context, w http.ResponseWriter, message proto.Message) error {
	switch m := message.(type) {
	case nil:
	case *apiv1.ListResponse, *apiv1.WatchResponse:
		return nil
	case interface {
		object
		GetCode() int32
	}:
		defer w.WriteHeader(int(max(m.GetCode(), http.StatusOK)))
		w.Header().Set("Content-Length", strconv.Itoa(len(m.GetObject())))
	case object:
		w.Header().Set("Content-Length", strconv.Itoa(len(m.GetObject())))
	}
	if md, ok := runtime.ServerMetadataFromContext(ctx); ok {
		addWarnings(w.Header(), md.HeaderMD)
	}
	return nil
}

// rewrite turns the messages of a stream into bytes.
func rewrite(ctx context.Context, message proto.Message) (any, error) {
	switch m := message.(type) {
	case *apiv1.ListResponse:
		return &httpbody.HttpBody{ContentType: m.GetContentType(), Data: m.GetObject()}, nil
	case *apiv1.WatchResponse:
		x := exchangeOf(ctx)
		if x.framer == nil {
			x.framer = framerFor(m.GetContentType())
		}
		out := &httpbody.HttpBody{ContentType: x.framer.contentType()}
		if events := m.GetEvents(); len(events) > 0 {
			out.Data = frames(x.framer, events)
		}
		return out, nil
	}
	return message, nil
}
