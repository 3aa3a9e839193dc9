package endpointslice

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/backend"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/pace"
	"howdah.dev/services/controllers/internal/pack"
	"howdah.dev/services/controllers/internal/written"
)

// byService files a slice under the key of its service.
const byService = "service"

// gatherNodes is how long changes of nodes are gathered before hints follow them.
const gatherNodes = time.Second

// gatherStrays is how long a slice that somebody else made for a service stays at least.
const gatherStrays = time.Second

// endpointSlices reconciles the slices of services.
type endpointSlices struct {
	client   *object.Client
	services *object.Informer[*corev1.Service]
	slices   *object.Informer[*discoveryv1.EndpointSlice]
	pods     *object.Informer[*corev1.Pod]
	nodes    *object.Informer[*corev1.Node]
	events   record.EventRecorder
	clock    clock.PassiveClock
	queue    *reconcile.Controller
	pace     *pace.Pace
	triggers backend.Triggers
	metrics  *Metrics
	written  *written.Versions // of the slices of services

	mu   sync.Mutex
	told map[types.UID]string // what was told last of a service's hints
}

func build(env *controller.Env, metrics *Metrics) *endpointSlices {
	return &endpointSlices{
		client: env.Client, pods: env.Pods(),
		services: object.InformerFor(env.Informers, object.Service),
		nodes:    object.InformerFor(env.Informers, object.Node),
		slices: object.InformerFor(env.Informers, object.EndpointSlice, object.Option{Indexers: cache.Indexers{
			byService: func(o any) ([]string, error) { return []string{serviceOf(o.(*discoveryv1.EndpointSlice))}, nil },
		}}),
		events: env.Recorder("endpoint-slice-controller"), clock: env.Clock, pace: pace.New(), told: map[types.UID]string{},
		metrics: metrics, written: written.New(env.Clock),
	}
}

// New returns the controller. metrics may be nil.
func New(env *controller.Env, metrics *Metrics) controller.Unit {
	metrics.began()
	c := build(env, metrics)
	c.queue = reconcile.New(reconcile.Config{
		Name: "endpointslice", Kind: "Service", Workers: 4, Reconcile: c.reconcile, Metrics: env.Metrics,
	})
	controller.Handle(env, c.services, func(old, new *corev1.Service) {
		s := new
		if s == nil {
			s = old
			c.pace.Forget(s.UID)
			c.triggers.Forget(s.UID)
			c.written.Forget(s.UID)
			c.tell(s, nil)
		}
		c.queue.Enqueue(object.KeyOf(s), c.services.Trace(s))
	})
	backend.Follow(env, c.pods, c.services, c.queue)
	controller.Handle(env, c.slices, func(old, new *discoveryv1.EndpointSlice) {
		for _, slice := range []*discoveryv1.EndpointSlice{old, new} {
			if slice != nil && slice.Labels[discoveryv1.LabelManagedBy] == Manager {
				c.changed(slice)
			}
		}
	})
	controller.Handle(env, c.nodes, c.nodeChanged)
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

// changed wakes the service of a slice, a while later if the slice is not the service's own: who makes one may have more to write to it.
func (c *endpointSlices) changed(slice *discoveryv1.EndpointSlice) {
	key := serviceOf(slice)
	if s, ok := c.services.GetKey(key); ok && !metav1.IsControlledBy(slice, s) {
		c.queue.EnqueueWithin(key, c.slices.Trace(slice), gatherStrays)
		return
	}
	c.queue.Enqueue(key, c.slices.Trace(slice))
}

// tell tells what became of a service's hints, where it is another thing than before.
func (c *endpointSlices) tell(s *corev1.Service, events []Event) {
	now := ""
	for _, e := range events {
		now += e.Message + "\n"
	}
	c.mu.Lock()
	was := c.told[s.UID]
	if now == "" && !auto(s) {
		delete(c.told, s.UID)
	} else {
		c.told[s.UID] = now
	}
	c.mu.Unlock()
	if was == now {
		return
	}
	for _, e := range events {
		c.events.Event(s, e.Type, e.Reason, e.Message)
	}
}

// nodeChanged wakes the services with pods on a node whose zone has changed, and those whose hints follow the CPUs of zones.
func (c *endpointSlices) nodeChanged(old, new *corev1.Node) {
	if old == nil || new == nil || !sameCPU(old, new) {
		for _, s := range c.services.List("") {
			if auto(s) {
				c.queue.EnqueueAfter(object.KeyOf(s), gatherNodes)
			}
		}
	}
	if old == nil || new == nil || old.Labels[corev1.LabelTopologyZone] == new.Labels[corev1.LabelTopologyZone] {
		return
	}
	for _, p := range c.pods.ByIndex(controller.ByNode, new.Name) {
		for _, s := range c.services.List(p.Namespace) {
			if backend.Selects(s, p.Labels) {
				c.queue.Enqueue(object.KeyOf(s), c.nodes.Trace(new))
			}
		}
	}
}

func serviceOf(slice *discoveryv1.EndpointSlice) string {
	return object.Key(slice.Namespace, slice.Labels[discoveryv1.LabelServiceName])
}

func (c *endpointSlices) zone(node string) string {
	if n, ok := c.nodes.Get("", node); ok {
		return n.Labels[corev1.LabelTopologyZone]
	}
	return ""
}

func (c *endpointSlices) reconcile(ctx context.Context, key string) (time.Duration, error) {
	wait, err := c.sync(ctx, key)
	if wait == 0 {
		c.metrics.synced(err)
	}
	return wait, err
}

// sync writes the slices of one service, unless it has to wait. Slices of a deleted service go
// with it: they bear its owner reference.
func (c *endpointSlices) sync(ctx context.Context, key string) (wait time.Duration, err error) {
	s, ok := c.services.GetKey(key)
	if !ok || !backend.Managed(s) || s.DeletionTimestamp != nil {
		c.metrics.forget(key)
		return 0, nil
	}
	if c.written.Hidden(s.UID, c.slices.Shows) {
		c.metrics.behind()
		return written.Patience, nil // the events of the newer ones call again
	}
	now := c.clock.Now()
	if wait := c.pace.Wait(s.UID, s.Generation, now); wait > 0 {
		return wait, nil
	}
	seen := Observed{Pods: controller.Selected(c.pods, s.Namespace, s.Spec.Selector), Zone: c.zone, Nodes: func() []*corev1.Node { return c.nodes.List("") }}
	seen.Taken = func(name string) bool { _, taken := c.slices.Get(s.Namespace, name); return taken }
	seen.Trigger = c.triggers.Last(s, seen.Pods)
	for _, slice := range c.slices.ByIndex(byService, key) {
		if slice.Labels[discoveryv1.LabelManagedBy] == Manager {
			seen.Slices = append(seen.Slices, slice)
		}
	}
	c.pace.Ran(s.UID, s.Generation, len(seen.Pods), now)
	plan, events := Decide(s, seen)
	c.tell(s, events)
	c.metrics.planned(key, s, plan)
	stored, err := pack.Apply(ctx, c.client, "Service "+key, plan, c.metrics.common())
	if len(stored) > 0 {
		c.written.Note(s.UID, written.Newest(stored))
	}
	c.metrics.applied(s, plan, err)
	if err != nil && !apierrors.IsConflict(err) && ctx.Err() == nil { // else it is this process that ends, or leads no more
		c.events.Eventf(s, corev1.EventTypeWarning, "FailedToUpdateEndpointSlices",
			"Error updating Endpoint Slices for Service %s/%s: %v", s.Namespace, s.Name, err)
	}
	return 0, err
}
