package pending

import (
	"context"
	"errors"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// change is a context with the trace of a change of its own.
func change(number byte) context.Context {
	return trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{number}, SpanID: trace.SpanID{number}, TraceFlags: trace.FlagsSampled,
	}))
}

// started is the span that a cause begins.
func started(t *testing.T, c *Cause) tracetest.SpanStub {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	c.Start(context.Background(), provider.Tracer("test"), "written").End()
	return exporter.GetSpans()[0]
}

func TestCauseContinuesTheNewestChange(t *testing.T) {
	c := NewCause(noon)
	if c.Traced() {
		t.Error("a cause without a change has a trace")
	}
	c.Add(change(1), "10")
	c.Add(change(2), "11")
	c.Add(change(2), "")
	c.Add(context.Background(), "12")
	span := started(t, c)
	if span.Parent.TraceID() != (trace.TraceID{2}) || len(span.Links) != 1 || span.Links[0].SpanContext.TraceID() != (trace.TraceID{1}) {
		t.Errorf("the span has the parent %v and the links %v", span.Parent.TraceID(), span.Links)
	}
	if !span.StartTime.Equal(noon) || span.Attributes[0].Value.AsString() != "12" {
		t.Errorf("the span begins at %v with %v", span.StartTime, span.Attributes)
	}
}

func TestCauseLinksAreBounded(t *testing.T) {
	c := NewCause(noon)
	for i := range byte(3 * maxLinks) {
		c.Add(change(i+1), "")
	}
	if span := started(t, c); len(span.Links) != maxLinks {
		t.Errorf("%d links, want %d", len(span.Links), maxLinks)
	}
}

func TestMergeKeepsTheEarlierBeginning(t *testing.T) {
	earlier := NewCause(noon)
	earlier.Add(change(1), "10")
	silent := NewCause(noon.Add(time.Minute))
	silent.Merge(earlier)
	newer := NewCause(noon.Add(time.Minute))
	newer.Add(change(2), "11")
	newer.Merge(earlier)
	for want, c := range map[byte]*Cause{1: silent, 2: newer} {
		if span := started(t, c); !c.Since().Equal(noon) || span.Parent.TraceID() != (trace.TraceID{want}) {
			t.Errorf("since %v, of trace %v; want %v and %d", c.Since(), span.Parent.TraceID(), noon, want)
		}
	}
}

func TestWaiters(t *testing.T) {
	var waiting, settling Waiters
	first := waiting.Join()
	settling.Take(&waiting)
	second := waiting.Join()
	settling.Release()
	if err := Wait(context.Background(), first); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Wait(ended, second); !errors.Is(err, context.Canceled) {
		t.Errorf("one who came later was told: %v", err)
	}
}
