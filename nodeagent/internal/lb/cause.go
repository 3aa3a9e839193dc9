package lb

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/meta"
)

// maxLinks bounds the traces that one merged update is linked to.
const maxLinks = 16

// cause remembers why an owner is dirty: the newest change's trace, those that it swallowed, and when the first came.
type cause struct {
	since    time.Time
	span     trace.SpanContext
	links    []trace.Link
	revision string
}

func (c *cause) add(ctx context.Context, obj any) {
	if m, err := meta.Accessor(obj); err == nil {
		c.revision = m.GetResourceVersion()
	}
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() || span.Equal(c.span) {
		return
	}
	if c.span.IsValid() && len(c.links) < maxLinks {
		c.links = append(c.links, trace.Link{SpanContext: c.span})
	}
	c.span = span
}

// merge takes an earlier cause in, whose update failed or has not been tried.
func (c *cause) merge(earlier *cause) {
	c.since = earlier.since
	if !c.span.IsValid() {
		c.span, c.links = earlier.span, earlier.links
	}
	if c.revision == "" {
		c.revision = earlier.revision
	}
}

// start begins the span of writing one owner's table, dated from when the change came.
func (c *cause) start(ctx context.Context, tracer trace.Tracer, o owner, backends int) trace.Span {
	_, span := tracer.Start(trace.ContextWithSpanContext(ctx, c.span), "lb.update",
		trace.WithLinks(c.links...),
		trace.WithTimestamp(c.since),
		trace.WithAttributes(
			attribute.String("k8s.kind", o.kind),
			attribute.String("k8s.namespace", o.namespace),
			attribute.String("k8s.name", o.name),
			attribute.Int("endpoints", backends),
			attribute.String("revision", c.revision),
		))
	return span
}
