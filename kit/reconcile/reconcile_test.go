package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
)

func spanContext(id byte) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{id}, SpanID: trace.SpanID{id}, TraceFlags: trace.FlagsSampled})
}

// freshSpanContext is of a trace that nobody else has: the recorder of spans outlives a test.
func freshSpanContext() trace.SpanContext {
	id := uuid.New()
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(id), SpanID: trace.SpanID(id[:8]), TraceFlags: trace.FlagsSampled})
}

func run(t *testing.T, c *Controller) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func TestRetriesUntilItSucceeds(t *testing.T) {
	t.Parallel()
	tries := make(chan int, 10)
	n := 0
	c := New(Config{Name: "test", Reconcile: func(context.Context, string) (time.Duration, error) {
		n++
		tries <- n
		if n < 3 {
			return 0, errors.New("not yet")
		}
		return 0, nil
	}})
	run(t, c)
	c.Enqueue("ns/a", trace.SpanContext{})
	for want := 1; want <= 3; want++ {
		if got := <-tries; got != want {
			t.Fatalf("try %d, want %d", got, want)
		}
	}
	if c.Failures() != 2 {
		t.Fatalf("%d failures, want 2", c.Failures())
	}
}

func TestAPanicIsRetried(t *testing.T) {
	t.Parallel()
	calls := make(chan struct{}, 10)
	first := true
	c := New(Config{Name: "test", Reconcile: func(context.Context, string) (time.Duration, error) {
		calls <- struct{}{}
		if first {
			first = false
			panic("boom")
		}
		return 0, nil
	}})
	run(t, c)
	c.Enqueue("a", trace.SpanContext{})
	<-calls
	<-calls
}

func TestCausesMerge(t *testing.T) {
	t.Parallel()
	c := New(Config{Name: "test"})
	c.Enqueue("a", trace.SpanContext{})
	c.Enqueue("a", spanContext(1))
	c.Enqueue("a", spanContext(2))
	c.Enqueue("a", spanContext(1))
	if c.Waiting() != 1 {
		t.Fatalf("%d keys wait, want one", c.Waiting())
	}
	got := c.causes["a"]
	if got.first.TraceID() != spanContext(1).TraceID() {
		t.Errorf("the first traced cause is continued, got %v", got.first)
	}
	if len(got.others) != 1 || got.others[0].SpanContext.TraceID() != spanContext(2).TraceID() {
		t.Errorf("the others are linked once each, got %v", got.others)
	}
	c.span(t.Context(), "a")
	if len(c.causes) != 0 {
		t.Errorf("causes are forgotten once reconciled: %v", c.causes)
	}
}
