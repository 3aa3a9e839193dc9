package nodettl

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

type annotator struct {
	client *object.Client
	nodes  *object.Informer[*corev1.Node]
	queue  *reconcile.Controller
	step   atomic.Int64
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	c := &annotator{client: env.Client, nodes: object.InformerFor(env.Informers, object.Node)}
	c.queue = reconcile.New(reconcile.Config{Name: "nodettl", Kind: "Node", Workers: 2, Reconcile: c.reconcile, Metrics: env.Metrics, Clock: env.Clock})
	controller.Handle(env, c.nodes, func(old, new *corev1.Node) {
		if old == nil || new == nil {
			c.count()
		}
		if new != nil && new.Annotations[corev1.ObjectTTLAnnotationKey] != c.seconds() {
			c.queue.Enqueue(new.Name, c.nodes.Trace(new))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

// count finds the cluster's step. A new one is for every node. Only the informer's one goroutine calls it.
func (c *annotator) count() {
	all := c.nodes.List("")
	at := int(c.step.Load())
	next := Next(at, len(all))
	if next == at {
		return
	}
	c.step.Store(int64(next))
	for _, n := range all {
		c.queue.Enqueue(n.Name, c.nodes.Trace(n))
	}
}

// seconds is the value that nodes' annotations are to have.
func (c *annotator) seconds() string { return strconv.Itoa(steps[c.step.Load()].seconds) }

func (c *annotator) reconcile(ctx context.Context, name string) (time.Duration, error) {
	node, ok := c.nodes.Get("", name)
	want := c.seconds()
	if !ok || node.Annotations[corev1.ObjectTTLAnnotationKey] == want {
		return 0, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{corev1.ObjectTTLAnnotationKey: want}}})
	if err != nil {
		return 0, err
	}
	if _, err = object.For(c.client, object.Node).Patch(ctx, "", name, types.MergePatchType, patch, ""); err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("annotate node %s: %w", name, err)
	}
	return 0, nil
}
