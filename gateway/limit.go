package gateway

import (
	"context"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

type streamEndKey struct{}

// withStreamEnd keeps, in the context of every request, the context whose
// end ends all streams.
func withStreamEnd(ctx, streams context.Context) context.Context {
	return context.WithValue(ctx, streamEndKey{}, streams)
}

// untilStreamsEnd returns a context that ends with ctx or with all streams.
func untilStreamsEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	streams, ok := ctx.Value(streamEndKey{}).(context.Context)
	if !ok {
		return ctx, cancel
	}
	stop := context.AfterFunc(streams, cancel)
	return ctx, func() { stop(); cancel() }
}

// requestTimeout reads the `timeout` option, a duration as in "30s", that
// may shorten the limit.
func requestTimeout(r *http.Request, limit time.Duration) (time.Duration, error) {
	text := r.URL.Query().Get("timeout")
	if text == "" {
		return limit, nil
	}
	timeout, err := time.ParseDuration(text)
	if err != nil {
		return 0, apierrors.NewBadRequest("invalid timeout specified in the request URL - " + err.Error())
	}
	if timeout <= 0 || timeout > limit {
		return limit, nil
	}
	return timeout, nil
}
