package object

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/obs"
)

// traceAge is how long a change's trace is continued. What acts on an older
// change starts a trace of its own.
const traceAge = time.Minute

// traces remembers which trace last changed each object. It holds what came
// in during the last traceAge or two: two generations that take turns.
type traces struct {
	mu          sync.Mutex
	young, old  map[traceKey]trace.SpanContext
	generation  time.Time
	initialized bool
}

type traceKey struct{ uid, resourceVersion string }

func keyOfTrace(obj metav1.Object) traceKey {
	return traceKey{string(obj.GetUID()), obj.GetResourceVersion()}
}

func (t *traces) put(obj metav1.Object, traceparent string) {
	sc := obs.ParseTraceparent(traceparent)
	if !sc.IsSampled() {
		return
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.initialized || now.Sub(t.generation) > traceAge {
		t.old, t.young = t.young, map[traceKey]trace.SpanContext{}
		t.generation, t.initialized = now, true
	}
	t.young[keyOfTrace(obj)] = sc
}

func (t *traces) get(obj metav1.Object) trace.SpanContext {
	key := keyOfTrace(obj)
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.generation) > 2*traceAge {
		return trace.SpanContext{}
	}
	if sc, ok := t.young[key]; ok {
		return sc
	}
	return t.old[key]
}

// untraced keeps lists and watches out of whatever trace ctx is in: they
// outlive it.
func untraced(ctx context.Context) context.Context { return obs.Untraced(ctx) }
