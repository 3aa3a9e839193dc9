package postgres

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"howdah.dev/services/apiserver/internal/store"
)

// startWriteSpan begins the writer's own "commit" span: its time in the queue and in the batch. A caller without
// a recorded span pays for one comparison.
func (s *Store) startWriteSpan(ctx context.Context, ws []store.Write) (context.Context, trace.Span) {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, nil
	}
	return s.cfg.Tracer.Start(ctx, "commit", trace.WithAttributes(
		attribute.String("howdah.key", ws[0].Key), attribute.String("howdah.operation", ws[0].Op.String()), attribute.Int("howdah.writes", len(ws))))
}

func endWriteSpan(span trace.Span, results []store.Result) {
	if span == nil {
		return
	}
	defer span.End()
	if err := groupError(results); err != nil {
		span.SetStatus(codes.Error, err.Error())
		return
	}
	span.SetAttributes(attribute.Int64("howdah.revision", results[0].Revision))
}

// startBatchSpan begins the span "store.commit" of a batch. It belongs to many traces: it is a child of the first
// writer's span, so that it is seen at all, and links all of them.
func (s *Store) startBatchSpan(ctx context.Context, batch []*request) (context.Context, trace.Span) {
	var links []trace.Link
	for _, r := range batch {
		if r.span != nil {
			links = append(links, trace.Link{SpanContext: r.span.SpanContext()})
		}
	}
	if len(links) == 0 {
		return ctx, nil
	}
	ctx = trace.ContextWithSpanContext(ctx, links[0].SpanContext)
	return s.cfg.Tracer.Start(ctx, "store.commit", trace.WithLinks(links...), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.system.name", "postgresql"), attribute.Int("howdah.batch.writes", countWrites(batch))))
}

func endBatchSpan(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// traceparentOf writes the context's span as the W3C header value; empty when there is none.
func traceparentOf(ctx context.Context) string {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return ""
	}
	return "00-" + span.TraceID().String() + "-" + span.SpanID().String() + "-" + span.TraceFlags().String()
}
