package reconcile

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// spans has the spans of every test.
var spans = &ended{byTrace: map[trace.TraceID]sdktrace.ReadOnlySpan{}, more: make(chan struct{})}

// ended keeps the spans that have ended, and tells of each.
type ended struct {
	sdktrace.SpanProcessor // does nothing but for what follows

	mu      sync.Mutex
	byTrace map[trace.TraceID]sdktrace.ReadOnlySpan
	more    chan struct{} // closed with the next end
}

func (e *ended) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (e *ended) OnEnd(s sdktrace.ReadOnlySpan) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.byTrace[s.SpanContext().TraceID()] = s
	close(e.more)
	e.more = make(chan struct{})
}

func (e *ended) look(id trace.TraceID) (s sdktrace.ReadOnlySpan, more <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.byTrace[id], e.more
}

func TestMain(m *testing.M) {
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	os.Exit(m.Run())
}

// spanOf waits for the span of a reconcile in a trace.
func spanOf(t *testing.T, id trace.TraceID) sdktrace.ReadOnlySpan {
	t.Helper()
	patience := time.After(time.Minute)
	for {
		s, more := spans.look(id)
		if s != nil {
			return s
		}
		select {
		case <-more:
		case <-patience:
			t.Fatalf("no span in trace %s", id)
		}
	}
}

func TestSpanContinuesItsCause(t *testing.T) {
	t.Parallel()
	seen := make(chan trace.SpanContext, 10)
	c := New(Config{Name: "deployment", Kind: "Deployment", Reconcile: func(ctx context.Context, _ string) (time.Duration, error) {
		seen <- trace.SpanContextFromContext(ctx)
		return 0, nil
	}})
	cause, other := freshSpanContext(), freshSpanContext()
	c.Enqueue("shop/web", cause)
	c.Enqueue("shop/web", other)
	run(t, c)
	within := <-seen
	s := spanOf(t, cause.TraceID())
	if s.Name() != "controller.deployment" || s.Parent().SpanID() != cause.SpanID() || within.SpanID() != s.SpanContext().SpanID() {
		t.Errorf("span %s of parent %s; the reconcile ran in %s", s.Name(), s.Parent().SpanID(), within.SpanID())
	}
	if links := s.Links(); len(links) != 1 || links[0].SpanContext.TraceID() != other.TraceID() {
		t.Errorf("the links are %v", links)
	}
	attributes := map[string]string{}
	for _, a := range s.Attributes() {
		attributes[string(a.Key)] = a.Value.AsString()
	}
	if attributes["k8s.kind"] != "Deployment" || attributes["k8s.namespace"] != "shop" || attributes["k8s.name"] != "web" {
		t.Errorf("the attributes are %v", attributes)
	}

	c.Enqueue("shop/web", trace.SpanContext{}) // a timer, a relist
	if within := <-seen; within.IsSampled() {
		t.Error("a reconcile without a traced cause must record nothing")
	}
}

func TestSpansTellFailuresButNotConflicts(t *testing.T) {
	t.Parallel()
	fail := map[string]error{
		"broken":   errors.New("broken"),
		"conflict": apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("modified")),
	}
	c := New(Config{Name: "test", Reconcile: func(_ context.Context, key string) (time.Duration, error) { return 0, fail[key] }})
	broken, conflict := freshSpanContext(), freshSpanContext()
	c.Enqueue("broken", broken)
	c.Enqueue("conflict", conflict)
	run(t, c)
	if got := spanOf(t, broken.TraceID()).Status().Code; got != codes.Error {
		t.Errorf("the failure's span has status %s", got)
	}
	if got := spanOf(t, conflict.TraceID()).Status().Code; got != codes.Unset {
		t.Errorf("the conflict's span has status %s: a cache that was behind is no failure", got)
	}
}

// runInBubble runs a controller until body returns; the bubble's clock jumps.
func runInBubble(t *testing.T, cfg Config, body func(c *Controller)) {
	t.Helper()
	c := New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx) }()
	body(c)
	cancel()
	<-done
}

func TestBackoffDoublesAndForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := make(chan time.Time, 100)
		var healed atomic.Bool
		runInBubble(t, Config{Name: "test", Reconcile: func(context.Context, string) (time.Duration, error) {
			at <- time.Now()
			if healed.Load() {
				return 0, nil
			}
			return 0, errors.New("not yet")
		}}, func(c *Controller) {
			c.Enqueue("a", trace.SpanContext{})
			last := <-at
			for _, want := range []time.Duration{5, 10, 20, 40, 80} {
				next := <-at
				if got := next.Sub(last); got != want*time.Millisecond {
					t.Errorf("back-off %s, want %s", got, want*time.Millisecond)
				}
				last = next
			}
			healed.Store(true)
			<-at
			synctest.Wait()
			healed.Store(false)
			c.Enqueue("a", trace.SpanContext{})
			last = <-at
			if got := (<-at).Sub(last); got != 5*time.Millisecond {
				t.Errorf("after a success the back-off begins anew, got %s", got)
			}
		})
	})
}

func TestAfterAsksAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := make(chan time.Time, 100)
		runInBubble(t, Config{Name: "test", Reconcile: func(context.Context, string) (time.Duration, error) {
			at <- time.Now()
			return 10 * time.Minute, nil
		}}, func(c *Controller) {
			start := time.Now()
			c.EnqueueAfter("a", time.Hour)
			if got := (<-at).Sub(start); got != time.Hour {
				t.Errorf("EnqueueAfter came after %s", got)
			}
			if got := (<-at).Sub(start); got != time.Hour+10*time.Minute {
				t.Errorf("after came at %s", got)
			}
		})
	})
}

func TestTimeoutEndsAReconcile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 100)
		runInBubble(t, Config{Name: "test", Timeout: time.Second, Reconcile: func(ctx context.Context, _ string) (time.Duration, error) {
			<-ctx.Done()
			ended <- ctx.Err()
			return 0, ctx.Err()
		}}, func(c *Controller) {
			start := time.Now()
			c.Enqueue("a", trace.SpanContext{})
			if err := <-ended; !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
				t.Errorf("ended after %s with %v", time.Since(start), err)
			}
			<-ended // it is tried again
		})
	})
}

func TestOneKeyIsReconciledByOneWorkerAtATime(t *testing.T) {
	t.Parallel()
	started, goOn := make(chan string, 100), make(chan struct{})
	metrics := NewMetrics(prometheus.NewRegistry())
	c := New(Config{Name: "test", Workers: 4, Metrics: metrics, Reconcile: func(_ context.Context, key string) (time.Duration, error) {
		started <- key
		<-goOn
		return 0, nil
	}})
	run(t, c)
	c.Enqueue("a", trace.SpanContext{})
	<-started
	c.Enqueue("a", trace.SpanContext{}) // waits for the first to end
	c.Enqueue("b", trace.SpanContext{}) // does not
	if key := <-started; key != "b" || c.Running() != 2 {
		t.Fatalf("%s started, %d run", key, c.Running())
	}
	close(goOn)
	if key := <-started; key != "a" {
		t.Fatalf("%s started", key)
	}
	for deadline := time.Now().Add(time.Minute); testutil.ToFloat64(metrics.total.WithLabelValues("test", "success")) != 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("three reconciles were not counted")
		}
	}
}
