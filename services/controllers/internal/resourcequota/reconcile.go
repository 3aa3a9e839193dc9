package resourcequota

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/internal/quota"
)

const (
	// resync is how often a quota is counted though nothing seems to have gone.
	resync = 5 * time.Minute
	// settle is how long after a change of its limits a quota is counted again: an apiserver that had not seen them yet may have
	// let something through uncounted.
	settle = 2 * time.Second
	// gather is how long the ends of objects are gathered before they are counted together.
	gather = 50 * time.Millisecond
)

var quotaKind = object.Kind[*corev1.ResourceQuota]{
	GVK: corev1.SchemeGroupVersion.WithKind("ResourceQuota"), Resource: "resourcequotas", Namespaced: true,
	New: func() *corev1.ResourceQuota { return &corev1.ResourceQuota{} },
}

// quotas reconciles quotas.
type quotas struct {
	client *object.Client
	quotas *object.Informer[*corev1.ResourceQuota]
	pods   *object.Informer[*corev1.Pod]
	clock  clock.WithTicker
	queue  *reconcile.Controller
	kinds  *follower
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	c := &quotas{client: env.Client, pods: env.Pods(), quotas: object.InformerFor(env.Informers, quotaKind), clock: env.Clock}
	c.kinds = newFollower(env.Client, env.Clock, c.gone)
	c.queue = reconcile.New(reconcile.Config{Name: "resourcequota", Kind: "ResourceQuota", Workers: 4, Reconcile: c.reconcile, Metrics: env.Metrics})
	controller.Handle(env, c.quotas, func(old, new *corev1.ResourceQuota) {
		c.kinds.want(object.KeyOf(either(old, new)), new)
		if new != nil && (old == nil || !quota.Equal(old.Spec.Hard, new.Spec.Hard) || !quota.Equal(new.Spec.Hard, new.Status.Hard)) {
			c.queue.Enqueue(object.KeyOf(new), c.quotas.Trace(new))
		}
	})
	controller.Handle(env, c.pods, func(old, new *corev1.Pod) {
		if freed(old, new, c.clock.Now()) {
			c.gone(pods, old.Namespace)
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}, Loops: []func(context.Context) error{c.kinds.run}}
}

func either(old, new *corev1.ResourceQuota) *corev1.ResourceQuota {
	if new != nil {
		return new
	}
	return old
}

// gone has the quotas counted that limit a resource of which an object has gone.
func (c *quotas) gone(gr schema.GroupResource, namespace string) {
	for _, q := range c.quotas.List(namespace) {
		for name := range q.Spec.Hard {
			if quota.Relevant(gr, name) {
				c.queue.EnqueueAfter(object.KeyOf(q), gather)
				break
			}
		}
	}
}

// reconcile counts one quota: it reads the quota, then all that it limits, and writes the sum if the quota is still as it was
// read. Whatever was created in between has moved the quota on.
func (c *quotas) reconcile(ctx context.Context, key string) (time.Duration, error) {
	known, ok := c.quotas.GetKey(key)
	if !ok {
		return 0, nil
	}
	resource := object.For(c.client, quotaKind)
	q, err := resource.Get(ctx, known.Namespace, known.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	seen, err := c.see(ctx, q)
	if err != nil {
		return 0, err
	}
	now := c.clock.Now()
	after := resync
	if end := NextEnd(seen, now); end > 0 {
		after = min(after, end)
	}
	status, news := Status(q, Used(q, seen, now))
	if !news {
		return after, nil
	}
	if !quota.Equal(q.Status.Hard, status.Hard) {
		after = min(after, settle)
	}
	q.Status = status
	_, err = resource.UpdateStatus(ctx, q)
	switch {
	case apierrors.IsNotFound(err):
		return 0, nil
	case apierrors.IsConflict(err):
		return gather, nil
	}
	return after, err
}

// see reads what a quota limits, as of now or later.
func (c *quotas) see(ctx context.Context, q *corev1.ResourceQuota) (Seen, error) {
	needs := NeedsOf(q)
	seen := Seen{Objects: map[schema.GroupResource][]any{}, Numbers: map[schema.GroupResource]int64{}}
	for _, gr := range needs.Whole {
		objects, err := c.read(ctx, gr, q.Namespace)
		if err != nil {
			return seen, fmt.Errorf("list %s: %w", gr, err)
		}
		seen.Objects[gr] = objects
	}
	if _, ok := seen.Objects[devices]; ok {
		var err error
		if seen.Classes, _, err = object.For(c.client, object.DeviceClass).List(ctx, "", metav1.ListOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return seen, fmt.Errorf("list DeviceClasses: %w", err)
		}
	}
	for _, gr := range needs.Number {
		n, err := c.count(ctx, gr, q.Namespace)
		if err != nil {
			return seen, fmt.Errorf("count %s: %w", gr, err)
		}
		seen.Numbers[gr] = n
	}
	return seen, nil
}

// count returns how many objects of a resource there are, none where it is not served. Before it says so it looks whether another version of it is.
func (c *quotas) count(ctx context.Context, gr schema.GroupResource, namespace string) (int64, error) {
	for again := true; ; again = false {
		kind, ok := c.kinds.find(ctx, gr)
		if !ok {
			return 0, nil
		}
		items, meta, err := object.For(c.client, kind).List(ctx, namespace, metav1.ListOptions{Limit: 1})
		switch {
		case apierrors.IsNotFound(err) && again:
			c.kinds.forget()
			continue
		case apierrors.IsNotFound(err):
			return 0, nil
		case err != nil:
			return 0, err
		}
		n := int64(len(items))
		if meta.RemainingItemCount != nil {
			n += *meta.RemainingItemCount
		}
		return n, nil
	}
}

func (c *quotas) read(ctx context.Context, gr schema.GroupResource, namespace string) ([]any, error) {
	switch gr {
	case pods:
		return listOf(ctx, c.client, object.Pod, namespace)
	case services:
		return listOf(ctx, c.client, object.Service, namespace)
	case claims:
		return listOf(ctx, c.client, object.PersistentVolumeClaim, namespace)
	case devices:
		return listOf(ctx, c.client, object.ResourceClaim, namespace)
	}
	return nil, fmt.Errorf("objects of %s are not looked into", gr)
}

func listOf[T object.Object](ctx context.Context, client *object.Client, kind object.Kind[T], namespace string) ([]any, error) {
	items, _, err := object.For(client, kind).List(ctx, namespace, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // the kind is not served
	}
	out := make([]any, 0, len(items))
	for _, item := range items {
		out = append(out, item)
	}
	return out, err
}
