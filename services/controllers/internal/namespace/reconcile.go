package namespace

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/discovery"
)

const (
	// lookAgain is how long content that others must let go of (finalizers,
	// grace periods) is left alone; the end of a pod is seen at once.
	lookAgain = time.Second
	// pageSize bounds how much of one resource is handled at once.
	pageSize = 500
	// accessOutlasts is how long programs whose account is in the namespace are still let in while objects wait for finalizers
	// that they may be the ones to remove. Kubernetes lets them by chance: it deletes kind by kind in no order, and takes a
	// token whose account has gone for ten seconds more.
	accessOutlasts = 10 * time.Second
)

// access are the kinds by which a program in the cluster is known and allowed what it does.
var access = map[schema.GroupResource]bool{
	corev1.Resource("serviceaccounts"): true,
	rbacv1.Resource("roles"):           true,
	rbacv1.Resource("rolebindings"):    true,
}

// namespaces reconciles namespaces that are being deleted.
type namespaces struct {
	client     *object.Client
	namespaces *object.Informer[*corev1.Namespace]
	pods       *object.Informer[*corev1.Pod]
	clock      clock.PassiveClock
	queue      *reconcile.Controller
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	c := &namespaces{
		client: env.Client, pods: env.Pods(), clock: env.Clock,
		namespaces: object.InformerFor(env.Informers, object.Namespace),
	}
	c.queue = reconcile.New(reconcile.Config{
		Name: "namespace", Kind: "Namespace", Workers: 4, Reconcile: c.reconcile, Timeout: 5 * time.Minute, LongestPause: time.Minute, Metrics: env.Metrics,
	})
	controller.Handle(env, c.namespaces, func(_, new *corev1.Namespace) {
		if new != nil && new.DeletionTimestamp != nil {
			c.queue.Enqueue(new.Name, c.namespaces.Trace(new))
		}
	})
	// Counted here, because to list what is left at each pod's end would cost the square of their number. All
	// calls of the handler come from one goroutine.
	count := map[string]int{}
	controller.Handle(env, c.pods, func(old, new *corev1.Pod) {
		switch {
		case old == nil:
			count[new.Namespace]++
		case new == nil:
			if count[old.Namespace]--; count[old.Namespace] > 0 {
				return
			}
			delete(count, old.Namespace)
			if ns, ok := c.namespaces.Get("", old.Namespace); ok && ns.DeletionTimestamp != nil {
				c.queue.Enqueue(ns.Name, c.pods.Trace(old))
			}
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

// reconcile takes the deletion of one namespace as far as it goes:
//  1. mark it Terminating, so that nothing new is admitted;
//  2. delete its pods, and wait until they have ended: what they use goes last;
//  3. delete everything else, and what lets programs in (access) last;
//  4. when nothing is left, remove our finalizer.
func (c *namespaces) reconcile(ctx context.Context, name string) (time.Duration, error) {
	ns, ok := c.namespaces.Get("", name)
	if !ok || ns.DeletionTimestamp == nil || finalized(ns) == nil {
		return 0, nil
	}
	resource := object.For(c.client, object.Namespace)
	if ns.Status.Phase != corev1.NamespaceTerminating {
		marked := ns.DeepCopy()
		marked.Status.Phase = corev1.NamespaceTerminating
		// The event of this write calls again.
		_, err := resource.UpdateStatus(ctx, marked)
		return 0, ignoreNotFound(err)
	}
	// The cache may be behind: a namesake may be there by now, and what it holds must stay. One that is as it was stays until we let go of it.
	cached := ns
	ns, err := resource.Get(ctx, "", name)
	if err != nil || ns.UID != cached.UID || finalized(ns) == nil {
		return 0, ignoreNotFound(err)
	}
	r := c.empty(ctx, name)
	conditions := Conditions(ns.Status.Conditions, r, metav1.NewTime(c.clock.Now()))
	if !apiequality.Semantic.DeepEqual(conditions, ns.Status.Conditions) {
		updated := ns.DeepCopy()
		updated.Status.Conditions = conditions
		stored, err := resource.UpdateStatus(ctx, updated)
		if err != nil {
			return 0, ignoreNotFound(err)
		}
		ns = stored
	}
	if !r.Empty() {
		if r.Discovery != nil {
			return 0, fmt.Errorf("discover the content of %s: %w", name, r.Discovery)
		}
		if len(r.Failures) > 0 {
			return 0, fmt.Errorf("delete the content of %s: %w", name, r.Failures[0])
		}
		return lookAgain, nil
	}
	if final := finalized(ns); final != nil {
		if _, err := resource.UpdateSubresource(ctx, "finalize", final); err != nil {
			return 0, ignoreNotFound(err)
		}
	}
	return 0, nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// empty deletes what the namespace holds, pods first and what lets programs in last, and tells what is left.
func (c *namespaces) empty(ctx context.Context, namespace string) Remains {
	r := Remains{}
	resources, err := discovery.Resources(ctx, c.client)
	r.Discovery = err
	var pods, others, last []discovery.Resource
	for _, res := range resources {
		switch {
		case !res.Namespaced || !res.Can("list", "delete"):
		case res.GroupResource() == corev1.Resource("pods"):
			pods = append(pods, res)
		case access[res.GroupResource()]:
			last = append(last, res)
		default:
			others = append(others, res)
		}
	}
	clear := func(part []discovery.Resource) {
		for _, res := range part {
			if err := c.clear(ctx, namespace, res, &r); err != nil {
				r.Failures = append(r.Failures, err)
			}
		}
	}
	clear(pods)
	if len(r.Counts) > 0 || len(r.Failures) > 0 {
		return r
	}
	clear(others)
	if since := c.clock.Now().Sub(r.Youngest); len(r.Counts) > 0 && since.Abs() < accessOutlasts {
		return r
	}
	clear(last)
	return r
}

// clear deletes the objects of one resource and counts those that stay.
func (c *namespaces) clear(ctx context.Context, namespace string, res discovery.Resource, r *Remains) error {
	if res.Remote {
		return c.clearRemote(ctx, namespace, res, r)
	}
	resource := object.For(c.client, res.Metadata()).WithUninitialized()
	objects, _, err := resource.List(ctx, namespace, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(objects) == 0 {
		return nil
	}
	background := metav1.DeletePropagationBackground
	var items []object.Item
	for _, o := range objects {
		if o.DeletionTimestamp == nil {
			items = append(items, resource.DeleteItem(namespace, o.Name,
				metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(o.UID)), PropagationPolicy: &background}))
		}
	}
	if err := c.delete(ctx, items); err != nil {
		return err
	}
	left, _, err := resource.List(ctx, namespace, metav1.ListOptions{})
	if err != nil {
		return err
	}
	r.add(res, left)
	return nil
}

// clearRemote does the same where an extension API server keeps the objects: it may be far, so that it is asked to delete them
// all at once where it can.
func (c *namespaces) clearRemote(ctx context.Context, namespace string, res discovery.Resource, r *Remains) error {
	resource := object.For(c.client, res.Metadata())
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	whole := res.Can("deletecollection")
	if whole {
		err := resource.DeleteCollection(ctx, namespace, options, metav1.ListOptions{})
		if whole = !apierrors.IsMethodNotSupported(err) && !apierrors.IsNotFound(err); whole && err != nil {
			return err
		}
	}
	left, _, err := resource.List(ctx, namespace, metav1.ListOptions{})
	if apierrors.IsMethodNotSupported(err) {
		return nil
	}
	if err == nil && !whole && len(left) > 0 {
		var items []object.Item
		for _, o := range left {
			if o.DeletionTimestamp == nil {
				options.Preconditions = metav1.NewUIDPreconditions(string(o.UID))
				items = append(items, resource.DeleteItem(namespace, o.Name, options))
			}
		}
		if err := c.delete(ctx, items); err != nil {
			return err
		}
		left, _, err = resource.List(ctx, namespace, metav1.ListOptions{})
	}
	if err != nil {
		return err
	}
	r.add(res, left)
	return nil
}

// add notes objects that stay.
func (r *Remains) add(res discovery.Resource, left []*metav1.PartialObjectMetadata) {
	for _, o := range left {
		if r.Counts == nil {
			r.Counts, r.Finalizers = map[schema.GroupResource]int{}, map[string]int{}
		}
		r.Counts[res.GroupResource()]++
		if at := o.DeletionTimestamp; at != nil && at.After(r.Youngest) {
			r.Youngest = at.Time
		}
		for _, f := range o.Finalizers {
			r.Finalizers[f]++
		}
	}
}

// delete makes deletions, and tells of one that failed for another reason than that the object has gone.
func (c *namespaces) delete(ctx context.Context, items []object.Item) error {
	for len(items) > 0 {
		part := items[:min(pageSize, len(items))]
		items = items[len(part):]
		results, err := c.client.Batch(ctx, part, false)
		if err != nil {
			return err
		}
		for _, result := range results {
			if result.Err != nil && !apierrors.IsNotFound(result.Err) && !apierrors.IsConflict(result.Err) {
				return result.Err
			}
		}
	}
	return nil
}
