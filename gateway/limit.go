package gateway

import (
	"context"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/gateway/internal/answer"
	"howdah.dev/gateway/internal/identity"
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
		return 0, apierrors.NewBadRequest("invalid timeout specified in the request URL: " + err.Error())
	}
	if timeout <= 0 || timeout > limit {
		return limit, nil
	}
	return timeout, nil
}

// impersonates reports whether the caller wants to act as somebody else.
func impersonates(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "Impersonate-") {
			return true
		}
	}
	return false
}

// refuseImpersonation answers as Kubernetes does where it is not allowed:
// acting as somebody else needs the authorization that is still to come.
func (rt *router) refuseImpersonation(w http.ResponseWriter, r *http.Request, caller identity.Caller) {
	caller, err := rt.identity.Resolve(r.Context(), caller)
	if err != nil {
		answer.Error(w, r, err)
		return
	}
	as := r.Header.Get("Impersonate-User")
	if as == "" {
		answer.Error(w, r, apierrors.NewBadRequest("requested impersonation without an Impersonate-User header"))
		return
	}
	answer.Error(w, r, apierrors.NewForbidden(schema.GroupResource{Resource: "users"}, as,
		errorText(`User "`+caller.User+`" cannot impersonate resource "users" in API group "" at the cluster scope`)))
}

type errorText string

func (e errorText) Error() string { return string(e) }
