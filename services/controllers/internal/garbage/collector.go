package garbage

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/discovery"
)

// collector is the garbage collector.
type collector struct {
	client *object.Client
	clock  clock.WithTicker
	events record.EventRecorder
	queue  *reconcile.Controller
	graph  *graph

	metrics *Metrics

	leading    atomic.Bool
	discovered chan struct{} // closed after the first discovery

	mu        sync.Mutex
	resources []discovery.Resource
	synced    []func(ctx context.Context) bool
}

// New returns the controller. Its graph is kept on a standby, too. metrics may be nil.
func New(env *controller.Env, metrics *Metrics) controller.Unit {
	c := &collector{
		client: env.Client, clock: env.Clock, events: env.Recorder("garbage-collector-controller"),
		graph: newGraph(), discovered: make(chan struct{}), metrics: metrics,
	}
	c.queue = reconcile.New(reconcile.Config{
		Name: "garbagecollector", Workers: 8, Reconcile: c.reconcile, Metrics: env.Metrics,
	})
	return controller.Unit{
		Queues: []*reconcile.Controller{c.queue},
		Always: []func(context.Context) error{c.follow},
		Loops:  []func(context.Context) error{c.lead},
		Ready:  c.ready,
	}
}

// fill is how long a start waits for kinds that cannot be listed, as those of
// a definition whose conversion webhook is not there; kube-controller-manager's.
const fill = 30 * time.Second

// ready waits until the graph is complete, so that the API need not be asked
// for owners that are merely not there yet, but for no longer than fill: one
// kind must not keep the whole cluster's garbage, and the controllers beside.
func (c *collector) ready(ctx context.Context) error {
	select {
	case <-c.discovered:
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	synced := c.synced
	c.mu.Unlock()
	filling, cancel := context.WithTimeout(ctx, fill)
	defer cancel()
	late := 0
	for _, wait := range synced {
		if !wait(filling) {
			late++
		}
	}
	if late > 0 && ctx.Err() == nil {
		slog.WarnContext(ctx, "some kinds cannot be listed: what they own is not collected until they can", "kinds", late)
	}
	return ctx.Err()
}

// lead asks for everything in the graph that needs work, once, and lets
// changes ask from then on.
func (c *collector) lead(ctx context.Context) error {
	c.leading.Store(true)
	defer c.leading.Store(false)
	for _, n := range c.graph.all() {
		work := n.foreground() || n.orphaning()
		for _, ref := range n.meta.OwnerReferences {
			owner := c.graph.get(ref.UID)
			work = work || owner == nil || !owner.is(ref, n.meta.Namespace) || owner.foreground()
		}
		if work {
			c.ask(itemKey(n.meta.UID), trace.SpanContext{})
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func (c *collector) setResources(resources []discovery.Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resources = resources
}

func (c *collector) addSynced(wait func(context.Context) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.synced = append(c.synced, wait)
}

// ask puts a key into the queue of a leader. Keys are "absent/<uid>", all
// dependents of an owner that has ended, or "item/<uid>", one object.
func (c *collector) ask(key string, by trace.SpanContext) {
	if !c.leading.Load() {
		return
	}
	if uid, ok := strings.CutPrefix(key, "absent/"); ok && len(c.graph.dependentsOf(types.UID(uid))) == 0 {
		return
	}
	c.queue.Enqueue(key, by)
}

func absentKey(uid types.UID) string { return "absent/" + string(uid) }
func itemKey(uid types.UID) string   { return "item/" + string(uid) }

func (c *collector) reconcile(ctx context.Context, key string) (time.Duration, error) {
	kind, uid, _ := strings.Cut(key, "/")
	if kind == "absent" {
		return 0, c.collect(ctx, c.graph.dependentsOf(types.UID(uid)))
	}
	n := c.graph.get(types.UID(uid))
	switch {
	case n == nil:
		return 0, nil
	case n.orphaning():
		return 0, c.orphan(ctx, n)
	case n.foreground():
		return 0, c.finish(ctx, n)
	}
	return 0, c.collect(ctx, []*node{n})
}
