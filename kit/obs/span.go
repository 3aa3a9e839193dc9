package obs

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ObjectAttributes are the attributes that every span about an object bears.
func ObjectAttributes(kind string, o metav1.Object) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("k8s.kind", kind),
		attribute.String("k8s.namespace", o.GetNamespace()),
		attribute.String("k8s.name", o.GetName()),
		attribute.String("k8s.uid", string(o.GetUID())),
	}
}

// KeyAttributes are the attributes of a span about an object of which only
// the key is known.
func KeyAttributes(kind, namespace, name string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("k8s.kind", kind),
		attribute.String("k8s.namespace", namespace),
		attribute.String("k8s.name", name),
	}
}

// End records err, if any, and ends the span.
func End(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// Traceparent returns the W3C traceparent of ctx, or "" where it is in no
// recorded trace.
func Traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// ParseTraceparent returns the span context that a W3C traceparent names;
// it is not valid where the text is empty or malformed.
func ParseTraceparent(traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	return trace.SpanContextFromContext(ctx)
}

// Untraced returns a context in which nothing is recorded: for heartbeats
// and polls, which would bury the traces that people look for.
func Untraced(ctx context.Context) context.Context {
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{0xff}, SpanID: trace.SpanID{0xff}, Remote: true,
	}))
}
