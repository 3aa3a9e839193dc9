package cloudnodelifecycle

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

// Provider knows how machines are.
type Provider interface {
	// Machine returns how the machine of a node that is not ready is.
	Machine(ctx context.Context, node *corev1.Node) (Machine, error)
}

// every is how often a machine is asked for while its node is not ready, Kubernetes' own time.
const every = 5 * time.Second

type lifecycle struct {
	client   *object.Client
	events   record.EventRecorder
	provider Provider
	nodes    *object.Informer[*corev1.Node]
}

// New returns the controller.
func New(env *controller.Env, provider Provider) controller.Unit {
	c := &lifecycle{client: env.Client, events: env.Recorder("cloud-node-lifecycle-controller"), provider: provider, nodes: object.InformerFor(env.Informers, object.Node)}
	queue := reconcile.New(reconcile.Config{Name: "cloudnodelifecycle", Kind: "Node", Workers: 4, Reconcile: c.reconcile, Metrics: env.Metrics, Clock: env.Clock})
	controller.Handle(env, c.nodes, func(old, new *corev1.Node) {
		if new != nil && (!ready(new) && (old == nil || ready(old)) || ready(new) && marked(new)) {
			queue.Enqueue(new.Name, c.nodes.Trace(new))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{queue}}
}

func (c *lifecycle) reconcile(ctx context.Context, name string) (time.Duration, error) {
	n, ok := c.nodes.Get("", name)
	if !ok {
		return 0, nil
	}
	after, machine := time.Duration(0), Running
	if !ready(n) {
		after = every
		var err error
		if machine, err = c.provider.Machine(ctx, n); err != nil {
			return 0, fmt.Errorf("ask the provider for node %s: %w", name, err)
		}
	}
	nodes := object.For(c.client, object.Node)
	var err error
	switch plan(n, machine) {
	case mark:
		n = n.DeepCopy()
		now := metav1.Now()
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: shutdown, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &now})
		_, err = nodes.Update(ctx, n)
	case unmark:
		n = n.DeepCopy()
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == shutdown })
		_, err = nodes.Update(ctx, n)
	case remove:
		c.events.Eventf(n, corev1.EventTypeNormal, "DeletingNode", "Deleting node %s because it does not exist in the cloud provider", name)
		err = nodes.Delete(ctx, "", name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &n.UID}})
		after = 0
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	return after, nil
}
