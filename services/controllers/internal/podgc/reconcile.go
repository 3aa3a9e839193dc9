package podgc

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/pod"
)

const (
	// sweepEvery is the time between sweeps, as in Kubernetes. What is being deleted without a node waits for one, too: as a rule its
	// deletion is over in a moment without anybody's help.
	sweepEvery = 20 * time.Second
	// quarantine is how long a node must be missing before its pods go.
	quarantine = 40 * time.Second
	// batchSize is how many pods are removed in one call.
	batchSize = 500
	// sweepKey is the only key of the queue: a sweep sees all pods.
	sweepKey = "pods"
)

// podGC sweeps pods.
type podGC struct {
	client    *object.Client
	threshold int
	pods      *object.Informer[*corev1.Pod]
	nodes     *object.Informer[*corev1.Node]
	clock     clock.WithTicker
	queue     *reconcile.Controller
	metrics   *Metrics

	mu      sync.Mutex
	missing map[string]time.Time // nodes, since when
}

// New returns the controller; threshold is how many ended pods are kept. metrics may be nil.
func New(env *controller.Env, threshold int, metrics *Metrics) controller.Unit {
	c := &podGC{
		client: env.Client, threshold: threshold, pods: env.Pods(),
		nodes: object.InformerFor(env.Informers, object.Node),
		clock: env.Clock, missing: map[string]time.Time{}, metrics: metrics,
	}
	c.queue = reconcile.New(reconcile.Config{Name: "podgc", Reconcile: c.reconcile, Metrics: env.Metrics})
	controller.Handle(env, c.nodes, func(old, new *corev1.Node) {
		if new == nil {
			c.queue.EnqueueAfter(sweepKey, quarantine)
		}
	})
	controller.Handle(env, object.InformerFor(env.Informers, object.Namespace), func(old, new *corev1.Namespace) {
		if new == nil {
			metrics.forget(old.Name)
		}
	})
	first := func(ctx context.Context) error {
		c.queue.Enqueue(sweepKey, trace.SpanContext{})
		<-ctx.Done()
		return ctx.Err()
	}
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}, Loops: []func(context.Context) error{first}}
}

func (c *podGC) reconcile(ctx context.Context, _ string) (time.Duration, error) {
	removals := Decide(c.pods.List(""), c.node, c.threshold)
	gone := map[string]bool{}
	removals = slices.DeleteFunc(removals, func(r Removal) bool {
		if r.Cause != orphaned {
			return false
		}
		name := r.Pod.Spec.NodeName
		is, asked := gone[name]
		if !asked {
			is = c.verified(ctx, name)
			gone[name] = is
		}
		return !is
	})
	for len(removals) > 0 {
		part := removals[:min(batchSize, len(removals))]
		removals = removals[len(part):]
		if err := c.remove(ctx, part); err != nil {
			return 0, err
		}
	}
	return sweepEvery, nil
}

func (c *podGC) node(name string) Node {
	n, ok := c.nodes.Get("", name)
	if !ok {
		return Node{}
	}
	var ready, outOfService bool
	for _, condition := range n.Status.Conditions {
		ready = ready || condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	}
	for _, t := range n.Spec.Taints {
		outOfService = outOfService || t.Key == corev1.TaintNodeOutOfService
	}
	if ok {
		c.mu.Lock()
		delete(c.missing, name)
		c.mu.Unlock()
	}
	return Node{Exists: true, Lost: !ready && outOfService}
}

// verified says whether a node has been missing for the quarantine, and is
// missing from the API itself.
func (c *podGC) verified(ctx context.Context, name string) bool {
	now := c.clock.Now()
	c.mu.Lock()
	since, ok := c.missing[name]
	if !ok {
		c.missing[name] = now
	}
	c.mu.Unlock()
	if !ok {
		c.queue.EnqueueAfter(sweepKey, quarantine)
		return false
	}
	if now.Sub(since) < quarantine {
		return false
	}
	_, err := object.For(c.client, object.Node).Get(ctx, "", name)
	return apierrors.IsNotFound(err)
}

// remove marks pods that did not end by themselves as failed, and deletes all
// of them without grace.
func (c *podGC) remove(ctx context.Context, removals []Removal) error {
	pods := object.For(c.client, object.Pod)
	var (
		items []object.Item
		of    []int // whose removal each is part of
	)
	for i, r := range removals {
		if !pod.Terminal(r.Pod) {
			items, of = append(items, pods.UpdateItem(failed(r, c.clock.Now()), "status")), append(of, i)
		}
		items, of = append(items, pods.DeleteItem(r.Pod.Namespace, r.Pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(r.Pod.UID)),
		})), append(of, i)
	}
	results, err := c.client.Batch(ctx, items, false)
	failures := make([]error, len(removals))
	for i, r := range of {
		switch {
		case i >= len(results):
			failures[r] = err
		case results[i].Err != nil && !apierrors.IsNotFound(results[i].Err) && !apierrors.IsConflict(results[i].Err):
			failures[r] = results[i].Err
		}
	}
	for i, r := range removals {
		c.metrics.removed(r, failures[i])
	}
	if err := cmp.Or(failures...); err != nil {
		return fmt.Errorf("remove pods: %w", err)
	}
	return nil
}

// failed is the pod of a removal as one that has failed: nobody else will say so.
func failed(r Removal, now time.Time) *corev1.Pod {
	p := r.Pod.DeepCopy()
	p.Status.Phase, p.Status.ObservedGeneration = corev1.PodFailed, p.Generation
	if r.Reason != "" {
		pod.SetCondition(p, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: r.Reason, Message: r.Message}, now)
	}
	return p
}
