package telemetry

import (
	"context"
	"math/rand/v2"
	"net/http"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"howdah.dev/kit/obs"

	"howdah.dev/gateway/internal/request"
)

// TraceIDHeader tells the caller under which trace the request can be found.
const TraceIDHeader = "X-Howdah-Trace-Id"

type infoKey struct{}

// WithInfo keeps what a request asks for in its context.
func WithInfo(ctx context.Context, info request.Info) context.Context {
	return context.WithValue(ctx, infoKey{}, info)
}

// InfoOf returns what WithInfo kept.
func InfoOf(ctx context.Context) request.Info {
	info, _ := ctx.Value(infoKey{}).(request.Info)
	return info
}

// Trace puts every request that people look for into a span; its parent is
// the caller's own span, where it sends one. Watches, heartbeats and
// documents are left out, together with all that they cause, and so is a share
// of the reads, 0 to 1, that no caller has traced.
func Trace(next http.Handler, untracedReads float64) http.Handler {
	tracer := otel.Tracer("howdah.dev/gateway")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !interesting(r) {
			next.ServeHTTP(w, r.WithContext(obs.Untraced(r.Context())))
			return
		}
		ctx := otel.GetTextMapPropagator().Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		if r.Method == http.MethodGet && !trace.SpanContextFromContext(ctx).IsValid() && rand.Float64() < untracedReads {
			next.ServeHTTP(w, r.WithContext(obs.Untraced(ctx)))
			return
		}
		ctx, span := tracer.Start(ctx, "gateway", trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		if span.SpanContext().IsSampled() {
			w.Header().Set(TraceIDHeader, span.SpanContext().TraceID().String())
		}
		if !span.IsRecording() { // names and attributes cost more than the rest
			next.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		span.SetName(spanName(r))
		span.SetAttributes(attributes(r)...)
		recorder, ok := w.(*Recorder)
		if !ok {
			recorder = Record(w)
		}
		next.ServeHTTP(recorder, r.WithContext(ctx))
		code := recorder.Code()
		span.SetAttributes(semconv.HTTPResponseStatusCode(code))
		if code >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
	})
}

func interesting(r *http.Request) bool {
	info := InfoOf(r.Context())
	switch {
	case !info.IsResource(), info.Verb == request.Watch:
		return false
	case info.Group == "coordination.k8s.io" && info.Resource == "leases":
		return false
	}
	return true
}

func spanName(r *http.Request) string { return r.Method + " " + InfoOf(r.Context()).Pattern() }

func attributes(r *http.Request) []attribute.KeyValue {
	info := InfoOf(r.Context())
	attributes := []attribute.KeyValue{
		semconv.HTTPRequestMethodKey.String(r.Method),
		semconv.HTTPRoute(info.Pattern()),
		semconv.URLPath(r.URL.Path),
		semconv.UserAgentOriginal(r.UserAgent()),
		semconv.ClientAddress(r.RemoteAddr),
		attribute.String("k8s.verb", info.Verb),
		attribute.String("k8s.group", info.Group),
		attribute.String("k8s.version", info.Version),
		attribute.String("k8s.resource", info.Resource),
	}
	for key, value := range map[string]string{
		"k8s.namespace": info.Namespace, "k8s.name": info.Name, "k8s.subresource": info.Subresource,
	} {
		if value != "" {
			attributes = append(attributes, attribute.String(key, value))
		}
	}
	return attributes
}
