package servicelb

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

type balancers struct {
	client   *object.Client
	events   record.EventRecorder
	provider Provider
	ignored  func(annotation string) bool
	services *object.Informer[*corev1.Service]
	nodes    *object.Informer[*corev1.Node]
	queue    *reconcile.Controller
	metrics  *Metrics

	mu      sync.Mutex
	ensured map[string]ensured // by key; dies with the leadership, so that a new leader ensures all of them once
}

// ensured is what a load balancer was last made of.
type ensured struct {
	service *corev1.Service
	hosts   string
}

// New returns the controller. Annotations that are ignored are the provider's own: they change nothing about a load balancer.
// metrics may be nil.
func New(env *controller.Env, provider Provider, ignored func(annotation string) bool, metrics *Metrics) controller.Unit {
	c := &balancers{
		client: env.Client, events: env.Recorder("service-controller"), provider: provider, ignored: ignored,
		services: object.InformerFor(env.Informers, object.Service), nodes: object.InformerFor(env.Informers, object.Node),
		ensured: map[string]ensured{}, metrics: metrics,
	}
	c.queue = reconcile.New(reconcile.Config{Name: "servicelb", Kind: "Service", Workers: 4, Reconcile: c.reconcile, Metrics: env.Metrics, Clock: env.Clock})
	controller.Handle(env, c.services, func(old, new *corev1.Service) {
		switch {
		case new == nil:
			c.queue.Enqueue(object.KeyOf(old), c.services.Trace(old))
			c.pending()
		case Wants(new) || ours(new):
			c.queue.Enqueue(object.KeyOf(new), c.services.Trace(new))
		}
	})
	controller.Handle(env, c.nodes, func(old, new *corev1.Node) {
		if old != nil && new != nil && Eligible(old) == Eligible(new) && old.Spec.ProviderID == new.Spec.ProviderID {
			return
		}
		for _, s := range c.services.List("") {
			if Wants(s) {
				c.queue.Enqueue(object.KeyOf(s), trace.SpanContext{})
			}
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

// pending looks again at those that could have no load balancer: what they lacked may be free now.
func (c *balancers) pending() {
	for _, s := range c.services.List("") {
		if Wants(s) && len(s.Status.LoadBalancer.Ingress) == 0 {
			c.queue.Enqueue(object.KeyOf(s), trace.SpanContext{})
		}
	}
}

func (c *balancers) reconcile(ctx context.Context, key string) (time.Duration, error) {
	s, ok := c.services.GetKey(key)
	if !ok { // its finalizer was taken by force
		return 0, c.forget(ctx, key)
	}
	var err error
	switch {
	case !Wants(s) || s.DeletionTimestamp != nil:
		if err = c.remove(ctx, s); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			c.events.Eventf(s, corev1.EventTypeWarning, "SyncLoadBalancerFailed", "Error syncing load balancer: failed to delete load balancer: %v", err)
		}
	default:
		if err = c.ensure(ctx, s); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			c.events.Eventf(s, corev1.EventTypeWarning, "SyncLoadBalancerFailed", "Error syncing load balancer: failed to ensure load balancer: %v", err)
		}
	}
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	return 0, err
}

// forget removes the load balancer of a Service that is gone without having waited for that.
func (c *balancers) forget(ctx context.Context, key string) error {
	c.mu.Lock()
	last, known := c.ensured[key]
	c.mu.Unlock()
	if !known {
		return nil
	}
	if err := c.provider.Delete(ctx, last.service); err != nil {
		return err
	}
	c.done(key, nil)
	return nil
}

// ensure brings the load balancer to what the Service asks for. The finalizer comes first: what is made is never lost.
func (c *balancers) ensure(ctx context.Context, s *corev1.Service) error {
	key := object.KeyOf(s)
	c.mu.Lock()
	last, known := c.ensured[key]
	c.mu.Unlock()
	nodes := eligible(c.nodes.List(""))
	follows, told := !known, []event(nil)
	if known {
		follows, told = compare(last.service, s, c.ignored)
		follows = follows || !ours(s)
	}
	if !follows {
		return c.update(ctx, s, last, nodes)
	}
	for _, e := range told {
		c.events.Event(s, corev1.EventTypeNormal, e.reason, e.message)
	}
	c.events.Event(s, corev1.EventTypeNormal, "EnsuringLoadBalancer", "Ensuring load balancer")
	if !ours(s) {
		var err error
		if s, err = c.finalizers(ctx, s, append(slices.Clone(s.Finalizers), Finalizer)); err != nil {
			return fmt.Errorf("failed to add load balancer cleanup finalizer: %w", err)
		}
	}
	if len(nodes) == 0 {
		c.events.Event(s, corev1.EventTypeWarning, "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer")
	}
	status, err := c.provider.Ensure(ctx, s, nodes)
	if err != nil {
		return err
	}
	if s, err = c.status(ctx, s, status); err != nil {
		return err
	}
	c.done(key, &ensured{service: s, hosts: hosts(nodes)})
	c.events.Event(s, corev1.EventTypeNormal, "EnsuredLoadBalancer", "Ensured load balancer")
	return nil
}

// update is for a load balancer that is as asked for: nodes may have come and gone. What people write over its addresses stays, as in Kubernetes, until
// the Service changes.
func (c *balancers) update(ctx context.Context, s *corev1.Service, last ensured, nodes []*corev1.Node) error {
	now := hosts(nodes)
	if now == last.hosts {
		return nil
	}
	if len(nodes) == 0 {
		c.events.Event(s, corev1.EventTypeWarning, "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer")
	}
	start := time.Now()
	err := c.provider.Update(ctx, s, nodes)
	c.metrics.updated(time.Since(start), err)
	if err != nil {
		c.events.Eventf(s, corev1.EventTypeWarning, "UpdateLoadBalancerFailed", "Error updating load balancer with new hosts %v: %v", names(nodes), err)
		return err
	}
	c.events.Event(s, corev1.EventTypeNormal, "UpdatedLoadBalancer", "Updated load balancer with new hosts")
	last.hosts = now
	c.done(object.KeyOf(s), &last)
	return nil
}

// remove takes the load balancer, then its addresses, then the finalizer away.
func (c *balancers) remove(ctx context.Context, s *corev1.Service) error {
	if !ours(s) {
		return nil
	}
	c.events.Event(s, corev1.EventTypeNormal, "DeletingLoadBalancer", "Deleting load balancer")
	if err := c.provider.Delete(ctx, s); err != nil {
		return err
	}
	s, err := c.status(ctx, s, corev1.LoadBalancerStatus{})
	if err != nil {
		return err
	}
	c.done(object.KeyOf(s), nil)
	if _, err := c.finalizers(ctx, s, slices.DeleteFunc(slices.Clone(s.Finalizers), func(f string) bool { return f == Finalizer })); err != nil {
		return fmt.Errorf("failed to remove load balancer cleanup finalizer: %w", err)
	}
	c.events.Event(s, corev1.EventTypeNormal, "DeletedLoadBalancer", "Deleted load balancer")
	c.pending()
	return nil
}

func (c *balancers) done(key string, is *ensured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if is == nil {
		delete(c.ensured, key)
		return
	}
	c.ensured[key] = *is
}

// finalizers writes the list as a whole, of this very version of the Service: others write theirs, too.
func (c *balancers) finalizers(ctx context.Context, s *corev1.Service, list []string) (*corev1.Service, error) {
	if list == nil {
		list = []string{}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.UID, "resourceVersion": s.ResourceVersion, "finalizers": list}})
	if err != nil {
		return nil, err
	}
	return object.For(c.client, object.Service).Patch(ctx, s.Namespace, s.Name, types.MergePatchType, patch, "")
}

// status notes the addresses, where they are not noted, and returns the Service as it is then.
func (c *balancers) status(ctx context.Context, s *corev1.Service, want corev1.LoadBalancerStatus) (*corev1.Service, error) {
	if len(want.Ingress) == len(s.Status.LoadBalancer.Ingress) && (len(want.Ingress) == 0 || reflect.DeepEqual(want, s.Status.LoadBalancer)) {
		return s, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": s.UID}, "status": map[string]any{"loadBalancer": map[string]any{"ingress": want.Ingress}},
	})
	if err != nil {
		return nil, err
	}
	stored, err := object.For(c.client, object.Service).Patch(ctx, s.Namespace, s.Name, types.MergePatchType, patch, "status")
	if err != nil {
		return nil, fmt.Errorf("failed to update load balancer status: %w", err)
	}
	return stored, nil
}
