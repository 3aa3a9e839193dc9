package endpoints

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/backend"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/pace"
	"howdah.dev/services/controllers/internal/written"
)

// endpoints reconciles the Endpoints of services.
type endpoints struct {
	client    *object.Client
	services  *object.Informer[*corev1.Service]
	endpoints *object.Informer[*corev1.Endpoints]
	pods      *object.Informer[*corev1.Pod]
	events    record.EventRecorder
	clock     clock.PassiveClock
	queue     *reconcile.Controller
	pace      *pace.Pace
	triggers  backend.Triggers
	written   *written.Versions
}

func build(env *controller.Env) *endpoints {
	return &endpoints{
		client: env.Client, pods: env.Pods(),
		services:  object.InformerFor(env.Informers, object.Service),
		endpoints: object.InformerFor(env.Informers, object.Endpoints),
		events:    env.Recorder("endpoint-controller"), clock: env.Clock, pace: pace.New(), written: written.New(env.Clock),
	}
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	c := build(env)
	c.queue = reconcile.New(reconcile.Config{
		Name: "endpoints", Kind: "Service", Workers: 4, Reconcile: c.reconcile, Metrics: env.Metrics,
	})
	controller.Handle(env, c.services, func(old, new *corev1.Service) {
		s := new
		if s == nil {
			s = old
			c.pace.Forget(s.UID)
			c.triggers.Forget(s.UID)
		}
		c.queue.Enqueue(object.KeyOf(s), c.services.Trace(s))
	})
	backend.Follow(env, c.pods, c.services, c.queue)
	controller.Handle(env, c.endpoints, func(old, new *corev1.Endpoints) {
		if old != nil && (new == nil || old.UID != new.UID) {
			c.written.Forget(old.UID)
		}
		if new == nil { // those that were removed are made again
			c.queue.Enqueue(object.KeyOf(old), c.endpoints.Trace(old))
			return
		}
		// Someone else's change is undone. Endpoints without a service are left alone: who restores a backup writes them before it.
		if _, ok := c.services.GetKey(object.KeyOf(new)); ok && (new.Labels[managedLabel] == manager || old != nil && old.Labels[managedLabel] == manager) {
			c.queue.Enqueue(object.KeyOf(new), c.endpoints.Trace(new))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}, Loops: []func(context.Context) error{c.leftovers}}
}

// leftovers looks, as the process begins to lead, for Endpoints whose service has gone meanwhile. Those that elect leaders never had one.
func (c *endpoints) leftovers(ctx context.Context) error {
	for _, e := range c.endpoints.List("") {
		if _, elects := e.Annotations[leaderAnnotation]; !elects {
			c.queue.Enqueue(object.KeyOf(e), c.endpoints.Trace(e))
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func (c *endpoints) reconcile(ctx context.Context, key string) (time.Duration, error) {
	resource := object.For(c.client, object.Endpoints)
	current, exists := c.endpoints.GetKey(key)
	s, ok := c.services.GetKey(key)
	if !ok {
		if !exists {
			return 0, nil
		}
		return 0, c.remove(ctx, current)
	}
	if !backend.Managed(s) || s.DeletionTimestamp != nil {
		return 0, nil
	}
	if exists && c.written.Behind(current) {
		return written.Patience, nil // the event of the newer ones calls again
	}
	now := c.clock.Now()
	if wait := c.pace.Wait(s.UID, s.Generation, now); wait > 0 {
		return wait, nil
	}
	selected := controller.Selected(c.pods, s.Namespace, s.Spec.Selector)
	c.pace.Ran(s.UID, s.Generation, len(selected), now)
	if !exists {
		current = nil
	}
	want := Decide(s, selected, current, c.triggers.Last(s, selected))
	if want == nil {
		return 0, nil
	}
	var stored *corev1.Endpoints
	var err error
	if exists {
		stored, err = resource.Update(ctx, want)
	} else {
		stored, err = resource.Create(ctx, want)
	}
	switch {
	case err == nil:
		c.written.Wrote(stored)
		return 0, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return 0, nil
	case ctx.Err() != nil:
		return 0, err // it is this process that ends, or leads no more: nothing is wrong with the endpoints
	case apierrors.IsConflict(err):
		return 0, err // the cache is behind
	case apierrors.IsAlreadyExists(err):
		return 0, apierrors.NewConflict(object.Endpoints.GroupResource(), s.Name, err)
	case exists:
		c.events.Eventf(want, corev1.EventTypeWarning, "FailedToUpdateEndpoint", "Failed to update endpoint %s/%s: %v", s.Namespace, s.Name, err)
	default:
		c.events.Eventf(want, corev1.EventTypeWarning, "FailedToCreateEndpoint", "Failed to create endpoint for service %s/%s: %v", s.Namespace, s.Name, err)
	}
	return 0, fmt.Errorf("write endpoints: %w", err)
}

// remove deletes Endpoints with their service, whoever wrote them. That it is gone is asked of the API: they may be those of another of its name, which the
// cache does not show yet, and what somebody else wrote does not come back.
func (c *endpoints) remove(ctx context.Context, e *corev1.Endpoints) error {
	if _, err := object.For(c.client, object.Service).Get(ctx, e.Namespace, e.Name); !apierrors.IsNotFound(err) {
		return err // the event of a service that is there calls again
	}
	err := object.For(c.client, object.Endpoints).Delete(ctx, e.Namespace, e.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(e.UID))})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete endpoints: %w", err)
	}
	return nil
}
