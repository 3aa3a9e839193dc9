// Package reconcile runs a controller's loop: a queue of keys that merges
// and delays, workers that reconcile one key at a time, and spans that
// continue the trace of the change that asked for it.
package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"howdah.dev/kit/obs"
)

// Func brings the object of key ("namespace/name", or "name") closer to what
// it should be. It is level-based and idempotent. A positive after asks to be
// called again then; an error asks for a retry with back-off.
type Func func(ctx context.Context, key string) (after time.Duration, err error)

// Config describes a controller.
type Config struct {
	Name      string // as in "deployment"
	Kind      string // kind of the keys' objects, for spans and logs
	Workers   int    // keys reconciled at the same time; 1 where 0
	Reconcile Func
	// Timeout bounds one reconcile; 1 minute where 0.
	Timeout time.Duration
	// LongestPause is how long a key that fails again and again waits for the next try at most; 100 s where 0.
	LongestPause time.Duration
	Metrics      *Metrics // nil measures nothing
	// Clock is what delays are measured with; the real one where nil.
	Clock clock.WithTicker
}

// Controller is a queue and its workers.
type Controller struct {
	cfg     Config
	queue   workqueue.TypedRateLimitingInterface[string]
	running atomic.Int32
	failed  atomic.Int64

	mu     sync.Mutex
	causes map[string]*cause
}

// maxLinks bounds the causes that a key remembers beyond the first.
const maxLinks = 8

// cause is what asked for a key since it was last reconciled.
type cause struct {
	first  trace.SpanContext
	others []trace.Link
}

// New returns a controller; nothing runs until Run.
func New(cfg Config) *Controller {
	if cfg.Workers == 0 {
		cfg.Workers = 1
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	if cfg.LongestPause == 0 {
		cfg.LongestPause = 100 * time.Second
	}
	queue := workqueue.TypedRateLimitingQueueConfig[string]{Clock: cfg.Clock}
	if cfg.Metrics != nil {
		queue.Name, queue.MetricsProvider = cfg.Name, cfg.Metrics.queues
	}
	return &Controller{
		cfg: cfg,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, cfg.LongestPause), queue),
		causes: map[string]*cause{},
	}
}

// Name returns the controller's name.
func (c *Controller) Name() string { return c.cfg.Name }

// Enqueue asks for key to be reconciled. by is the trace of the change that
// asks for it; it need not be valid.
func (c *Controller) Enqueue(key string, by trace.SpanContext) {
	c.note(key, by)
	c.queue.Add(key)
}

// EnqueueWithin is Enqueue for what need not be seen to at once: the key is reconciled after the delay, or earlier where it was asked for
// before, so that one reconcile serves all that happened until then.
func (c *Controller) EnqueueWithin(key string, by trace.SpanContext, delay time.Duration) {
	c.note(key, by)
	c.queue.AddAfter(key, delay)
}

// note keeps what asks for a key.
func (c *Controller) note(key string, by trace.SpanContext) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.causes[key]
	switch {
	case known == nil:
		c.causes[key] = &cause{first: by}
	case !by.IsValid() || by.TraceID() == known.first.TraceID():
	case !known.first.IsValid():
		known.first = by
	case len(known.others) < maxLinks:
		known.others = append(known.others, trace.Link{SpanContext: by})
	}
}

// EnqueueAfter asks for key to be reconciled after a delay.
func (c *Controller) EnqueueAfter(key string, delay time.Duration) { c.queue.AddAfter(key, delay) }

// Waiting and Running count keys; Failures counts reconciles since the start.
func (c *Controller) Waiting() int    { return c.queue.Len() }
func (c *Controller) Running() int    { return int(c.running.Load()) }
func (c *Controller) Failures() int64 { return c.failed.Load() }

// Run reconciles until ctx ends and returns when the workers have. It can
// run once: a process that loses its leadership starts anew.
func (c *Controller) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for range c.cfg.Workers {
		wg.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown()
	wg.Wait()
	return ctx.Err()
}

func (c *Controller) next(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	if ctx.Err() != nil {
		return false
	}
	c.running.Add(1)
	defer c.running.Add(-1)

	start := time.Now()
	ctx, span := c.span(ctx, key)
	after, err := c.reconcile(ctx, key)
	c.cfg.Metrics.observe(c.cfg.Name, time.Since(start), err)
	conflict := err != nil && apierrors.IsConflict(err)
	if conflict { // the cache was behind; the next try sees the newer object
		obs.End(span, nil)
	} else {
		obs.End(span, err)
	}
	switch {
	case err != nil && ctx.Err() != nil && apierrors.IsTimeout(err):
		c.queue.AddRateLimited(key)
	case err != nil:
		c.failed.Add(1)
		if !conflict {
			slog.WarnContext(ctx, "reconcile failed", "controller", c.cfg.Name, "kind", c.cfg.Kind, "key", key, "err", err)
		}
		c.queue.AddRateLimited(key)
	default:
		c.queue.Forget(key)
		if after > 0 {
			c.queue.AddAfter(key, after)
		}
	}
	return true
}

func (c *Controller) reconcile(ctx context.Context, key string) (after time.Duration, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	return c.cfg.Reconcile(ctx, key)
}

// span continues the trace of the first cause and links the others. A
// reconcile without a traced cause (a retry, a timer) records nothing.
func (c *Controller) span(ctx context.Context, key string) (context.Context, trace.Span) {
	c.mu.Lock()
	why := c.causes[key]
	delete(c.causes, key)
	c.mu.Unlock()
	if why == nil || !why.first.IsValid() {
		ctx = obs.Untraced(ctx)
		return ctx, trace.SpanFromContext(ctx)
	}
	ctx = trace.ContextWithRemoteSpanContext(ctx, why.first)
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		namespace, name = "", key
	}
	return otel.Tracer("howdah.dev/kit/reconcile").Start(ctx, "controller."+c.cfg.Name,
		trace.WithLinks(why.others...),
		trace.WithAttributes(obs.KeyAttributes(c.cfg.Kind, namespace, name)...))
}

// Metrics measures all controllers of a process.
type Metrics struct {
	seconds *prometheus.HistogramVec
	total   *prometheus.CounterVec
	queues  *queueMetrics
}

// NewMetrics registers the controllers' metrics. Roles of one process that share a registerer share them.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		queues: newQueueMetrics(),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "controller_runtime_reconcile_time_seconds", Help: "Time of one reconcile.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}, []string{"controller"}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "controller_runtime_reconcile_total", Help: "Reconciles, by result.",
		}, []string{"controller", "result"}),
	}
	q := m.queues
	q.adds, m.total = obs.Register(registerer, q.adds), obs.Register(registerer, m.total)
	for _, h := range []**prometheus.HistogramVec{&q.waited, &q.worked, &m.seconds} {
		*h = obs.Register(registerer, *h)
	}
	for _, g := range []**prometheus.GaugeVec{&q.unfinished, &q.oldest} {
		*g = obs.Register(registerer, *g)
	}
	return m
}

func (m *Metrics) observe(controller string, took time.Duration, err error) {
	if m == nil {
		return
	}
	result := "success"
	if err != nil {
		result = "error"
	}
	m.seconds.WithLabelValues(controller).Observe(took.Seconds())
	m.total.WithLabelValues(controller, result).Inc()
}
