package endpointslicemirroring

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/pack"
	"howdah.dev/services/controllers/internal/written"
)

// byEndpoints files a slice under the key of the Endpoints that it mirrors.
const byEndpoints = "mirrored"

// mirror reconciles Endpoints.
type mirror struct {
	client    *object.Client
	services  *object.Informer[*corev1.Service]
	endpoints *object.Informer[*corev1.Endpoints]
	slices    *object.Informer[*discoveryv1.EndpointSlice]
	events    record.EventRecorder
	queue     *reconcile.Controller
	metrics   *Metrics
	written   *written.Versions // of the slices of Endpoints
}

func build(env *controller.Env, metrics *Metrics) *mirror {
	return &mirror{
		metrics:   metrics,
		client:    env.Client,
		services:  object.InformerFor(env.Informers, object.Service),
		endpoints: object.InformerFor(env.Informers, object.Endpoints),
		slices: object.InformerFor(env.Informers, object.EndpointSlice, object.Option{Indexers: cache.Indexers{
			byEndpoints: func(o any) ([]string, error) { return mirroredBy(o.(*discoveryv1.EndpointSlice)), nil },
		}}),
		events: env.Recorder("endpoint-slice-mirroring-controller"), written: written.New(env.Clock),
	}
}

// New returns the controller. metrics may be nil.
func New(env *controller.Env, metrics *Metrics) controller.Unit {
	metrics.began()
	c := build(env, metrics)
	c.queue = reconcile.New(reconcile.Config{
		Name: "endpointslicemirroring", Kind: "Endpoints", Workers: 2, Reconcile: c.reconcile, Metrics: env.Metrics,
	})
	controller.Handle(env, c.endpoints, func(old, new *corev1.Endpoints) {
		e := new
		if e == nil {
			e = old
			c.written.Forget(e.UID)
		}
		c.queue.Enqueue(object.KeyOf(e), c.endpoints.Trace(e))
	})
	controller.Handle(env, c.services, func(old, new *corev1.Service) {
		s := new
		if s == nil {
			s = old
		}
		c.queue.Enqueue(object.KeyOf(s), c.services.Trace(s))
	})
	controller.Handle(env, c.slices, func(old, new *discoveryv1.EndpointSlice) {
		for _, slice := range []*discoveryv1.EndpointSlice{old, new} {
			if slice == nil {
				continue
			}
			for _, key := range mirroredBy(slice) {
				c.queue.Enqueue(key, c.slices.Trace(slice))
			}
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

// mirroredBy returns the key of the Endpoints that a slice of ours mirrors.
func mirroredBy(slice *discoveryv1.EndpointSlice) []string {
	if slice.Labels[discoveryv1.LabelManagedBy] != Manager {
		return nil
	}
	return []string{object.Key(slice.Namespace, slice.Labels[discoveryv1.LabelServiceName])}
}

func (c *mirror) reconcile(ctx context.Context, key string) (time.Duration, error) {
	start := time.Now()
	defer func() { c.metrics.synced(time.Since(start)) }()
	e, ok := c.endpoints.GetKey(key)
	s, hasService := c.services.GetKey(key)
	if !hasService {
		s = nil
	}
	mirrored := ok && Mirrored(e, s)
	if mirrored && c.written.Hidden(e.UID, c.slices.Shows) {
		return written.Patience, nil // the events of the newer ones call again
	}
	existing := c.slices.ByIndex(byEndpoints, key)
	if !mirrored {
		c.metrics.forget(key)
		_, err := pack.Apply(ctx, c.client, "Endpoints "+key, pack.Plan{Delete: existing}, c.metrics.common())
		return 0, err
	}
	own, strays := pack.Sort(existing, e)
	plan, skipped := Decide(e, own, func(name string) bool { _, taken := c.slices.Get(e.Namespace, name); return taken })
	plan.Delete = append(plan.Delete, strays...)
	c.metrics.planned(key, plan, skipped)
	if plan.Empty() {
		return 0, nil
	}
	if skipped.Invalid > 0 {
		c.events.Eventf(e, corev1.EventTypeWarning, "InvalidIPAddress", "Skipped %d invalid IP addresses when mirroring to EndpointSlices", skipped.Invalid)
	}
	if skipped.All > skipped.Invalid {
		c.events.Eventf(e, corev1.EventTypeWarning, "TooManyAddressesToMirror",
			"A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped", maxAddresses, skipped.All)
	}
	stored, err := pack.Apply(ctx, c.client, "Endpoints "+key, plan, c.metrics.common())
	if len(stored) > 0 {
		c.written.Note(e.UID, written.Newest(stored))
	}
	if err != nil && !apierrors.IsConflict(err) && ctx.Err() == nil { // else it is this process that ends, or leads no more
		c.events.Eventf(e, corev1.EventTypeWarning, "FailedToUpdateEndpointSlices",
			"Error updating Endpoint Slices for Endpoints %s/%s: %v", e.Namespace, e.Name, err)
	}
	return 0, err
}
