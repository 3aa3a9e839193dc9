// Package pending keeps what a loop that writes into the kernel has still to do: why something is to be written (Cause), and who
// waits until it is (Waiters). Neither locks: they belong to the loop's own state.
package pending

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// maxLinks bounds the traces that one merged update is linked to.
const maxLinks = 16

// Cause is the changes of one thing that are not written yet: the newest one's trace, those that it swallowed, and when the first came.
type Cause struct {
	since    time.Time
	span     trace.SpanContext
	links    []trace.Link
	revision string
}

// NewCause is one that begins now, with no change that is known.
func NewCause(now time.Time) *Cause { return &Cause{since: now} }

// Since is when the first change came.
func (c *Cause) Since() time.Time { return c.since }

// Traced says whether a change has a trace, which Start continues.
func (c *Cause) Traced() bool { return c.span.IsValid() }

// Add takes a further change in, by the trace in ctx and the object's resourceVersion; an empty one says nothing.
func (c *Cause) Add(ctx context.Context, revision string) {
	if revision != "" {
		c.revision = revision
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

// Merge takes an earlier cause in, whose update failed or has not been tried.
func (c *Cause) Merge(earlier *Cause) {
	c.since = earlier.since
	if !c.span.IsValid() {
		c.span, c.links = earlier.span, earlier.links
	}
	if c.revision == "" {
		c.revision = earlier.revision
	}
}

// Start begins the span of writing what changed, dated from when the first change came.
func (c *Cause) Start(ctx context.Context, tracer trace.Tracer, name string, attributes ...attribute.KeyValue) trace.Span {
	_, span := tracer.Start(trace.ContextWithSpanContext(ctx, c.span), name,
		trace.WithLinks(c.links...),
		trace.WithTimestamp(c.since),
		trace.WithAttributes(attributes...),
		trace.WithAttributes(attribute.String("revision", c.revision)))
	return span
}

// Waiters are those who wait until all that was to be written when they came is written. The zero value has none.
type Waiters []chan struct{}

// Join adds one, who is told by the channel's closing.
func (w *Waiters) Join() <-chan struct{} {
	done := make(chan struct{})
	*w = append(*w, done)
	return done
}

// Take moves the others' over.
func (w *Waiters) Take(others *Waiters) {
	*w = append(*w, *others...)
	*others = nil
}

// Release tells all, and forgets them.
func (w *Waiters) Release() {
	for _, done := range *w {
		close(done)
	}
	*w = nil
}

// Wait waits for a channel of Join, or for the context's end.
func Wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
