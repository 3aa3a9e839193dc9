package cloudnode

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

// again is when a machine is asked for that the provider did not know, Kubernetes' own time.
const again = 20 * time.Second

type completer struct {
	client   *object.Client
	events   record.EventRecorder
	provider Provider
	nodes    *object.Informer[*corev1.Node]
	clock    clock.PassiveClock
	metrics  *Metrics
}

// New returns the controller. metrics may be nil.
func New(env *controller.Env, provider Provider, metrics *Metrics) controller.Unit {
	c := &completer{
		client: env.Client, events: env.Recorder("cloud-node-controller"), provider: provider, nodes: object.InformerFor(env.Informers, object.Node),
		clock: env.Clock, metrics: metrics,
	}
	queue := reconcile.New(reconcile.Config{Name: "cloudnode", Kind: "Node", Workers: 2, Reconcile: c.reconcile, Metrics: env.Metrics, Clock: env.Clock})
	controller.Handle(env, c.nodes, func(_, new *corev1.Node) {
		if new != nil && waits(new) {
			queue.Enqueue(new.Name, c.nodes.Trace(new))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{queue}}
}

// reconcile writes the addresses first: the taint goes last, with everything else.
func (c *completer) reconcile(ctx context.Context, name string) (time.Duration, error) {
	n, ok := c.nodes.Get("", name)
	if !ok || !waits(n) {
		return 0, nil
	}
	is, err := c.provider.Instance(ctx, n)
	if err != nil {
		return 0, fmt.Errorf("ask the provider for node %s: %w", name, err)
	}
	if is == nil {
		return again, nil
	}
	nodes := object.For(c.client, object.Node)
	if want := addressed(n, is.Addresses); want != nil {
		if n, err = nodes.UpdateStatus(ctx, want); err != nil {
			return 0, ignoreGone(err)
		}
	}
	if n, err = nodes.Update(ctx, Complete(n, is)); err != nil {
		return 0, ignoreGone(err)
	}
	c.metrics.completed(c.clock.Since(n.CreationTimestamp.Time))
	c.events.Event(n, corev1.EventTypeNormal, "Synced", "Node synced successfully")
	return 0, nil
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
