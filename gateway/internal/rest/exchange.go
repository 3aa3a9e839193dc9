// Package rest serves the Kubernetes API's resources through the handlers
// that grpc-gateway generates from the annotations of ObjectService. Bodies
// pass as they are in both directions; this package adds what the generated
// handlers cannot know: where options come from, how a Status is answered,
// how lists and watches are framed, and compression.
package rest

import (
	"context"
	"errors"
	"io"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"howdah.dev/gateway/internal/answer"
	"howdah.dev/gateway/internal/request"
)

// exchange is the state of one request on its way through the mux, which
// hands it to its hooks in the context.
type exchange struct {
	info     request.Info
	metadata metadata.MD
	// cancel ends the call behind, where the client has gone.
	cancel context.CancelFunc
	// err is what the call failed with; once set, nothing that the mux
	// writes reaches the client.
	err error
	// framer frames the events of a watch; set by its first response.
	framer framer
}

type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf returns the exchange of a request of this package's handler.
func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// addWarnings passes on the warnings of an answer, and says how the request was classified.
func addWarnings(h http.Header, md metadata.MD) {
	answer.Classified(h, md)
	answer.Warnings(h, md)
}

// ended reports whether a watch is over without anything to tell the client.
func ended(ctx context.Context, err error) bool {
	return errors.Is(err, io.EOF) || ctx.Err() != nil || interrupted(err)
}

// interrupted reports whether a stream ended because one of its ends went
// away, rather than with something to tell the client.
func interrupted(err error) bool {
	if errors.Is(err, context.Canceled) {
		return true
	}
	s, ok := status.FromError(err)
	return ok && len(s.Proto().GetDetails()) == 0 && (s.Code() == codes.Canceled || s.Code() == codes.Unavailable)
}
