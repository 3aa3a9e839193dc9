// Package podcontrol writes the pods of controllers: it makes, deletes, adopts and releases them, many a call, tells of it in Events, and
// remembers what the pod cache has yet to show, so that nothing is made or deleted twice.
package podcontrol

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/owner"
	"howdah.dev/services/controllers/internal/written"
)

const (
	// firstBatch is how many pods are tried before the template is known to work.
	firstBatch = 16
	// fullBatch is how many writes go into one call from then on.
	fullBatch = 500
)

// Owner is an object that controls pods.
type Owner interface {
	metav1.Object
	runtime.Object
}

// Control writes the pods of owners of one kind.
type Control struct {
	client  *object.Client
	kind    schema.GroupVersionKind
	pods    *object.Informer[*corev1.Pod]
	events  record.EventRecorder
	word    Wording
	clock   clock.PassiveClock
	expect  *expectations
	written *written.Versions
	// named says that names mean something: they are not only the prefix with letters behind it.
	named bool
	// finalizer, where set, is on every pod of an owner.
	finalizer string
}

// New returns the control of the owners of a kind.
func New(env *controller.Env, kind schema.GroupVersionKind, events record.EventRecorder) *Control {
	c := NewWorded(env, kind, events, usual)
	c.named = false
	return c
}

// NewWorded is New for a kind whose Events have a wording of their own, and whose pods are named by it.
func NewWorded(env *controller.Env, kind schema.GroupVersionKind, events record.EventRecorder, word Wording) *Control {
	return &Control{client: env.Client, kind: kind, pods: env.Pods(), events: events, word: word, named: true, clock: env.Clock, expect: newExpectations(), written: env.Written(kind.GroupKind())}
}

// WithFinalizer has pods get a finalizer when they are adopted, and lose it when they are released.
func (c *Control) WithFinalizer(name string) *Control {
	c.finalizer = name
	return c
}

// Settled says whether the pod cache shows all that was written for the owner, or Patience has passed. Until then what is missing or too
// many cannot be told from what is under way.
func (c *Control) Settled(owner types.UID) bool { return c.expect.settled(owner, c.clock.Now()) }

// Forget drops what is known of an owner that is gone.
func (c *Control) Forget(owner types.UID) {
	c.expect.forget(owner)
	c.written.Forget(owner)
}

// Wrote notes an owner as a write of its status has left it.
func (c *Control) Wrote(owner metav1.Object) { c.written.Wrote(owner) }

// Behind says whether an owner is older than what its controller wrote: the cache is yet to show that. A status that was made of it could only be refused.
// The event of the newer one calls again.
func (c *Control) Behind(owner metav1.Object) bool { return c.written.Behind(owner) }

// Create makes the named pods, a batch a call. The first batch is small, and a batch with a failure is the last: a template that
// admission refuses must not flood the API. Where the owner's creations failed before, it starts with one pod and doubles. Names come
// from Names, or are those that the owner gives its pods. It returns the first failure, and nil where the namespace is about to go: so is everything there.
func (c *Control) Create(ctx context.Context, owner Owner, names []string, podOf func(name string) *corev1.Pod, failedBefore bool) error {
	err := c.TryCreate(ctx, owner, names, podOf, failedBefore)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}

// TryCreate is Create, but it returns the refusal of a namespace that is about to go, too.
func (c *Control) TryCreate(ctx context.Context, owner Owner, names []string, podOf func(name string) *corev1.Pod, failedBefore bool) error {
	c.expect.creating(owner.GetUID(), names, c.clock.Now())
	size, proven := firstBatch, false
	if failedBefore {
		size = 1
	}
	for len(names) > 0 {
		part := names[:min(size, len(names))]
		names = names[len(part):]
		if err := c.createBatch(ctx, owner, part, podOf); err != nil {
			c.expect.notCreated(owner.GetUID(), names, false)
			return err
		}
		switch {
		case size >= firstBatch && !proven:
			size, proven = fullBatch, true
		default:
			size = min(2*size, fullBatch)
		}
	}
	return nil
}

// createBatch makes the named pods and returns the first failure.
func (c *Control) createBatch(ctx context.Context, owner Owner, names []string, podOf func(name string) *corev1.Pod) error {
	pods := object.For(c.client, object.Pod)
	items := make([]object.Item, 0, len(names))
	prefix := ""
	for _, n := range names {
		pod := podOf(n)
		if !c.named {
			prefix = pod.GenerateName
		}
		items = append(items, pods.CreateItem(pod))
	}
	results, err := c.client.Batch(ctx, items, false)
	if err != nil {
		// The call failed whole: some of it may have landed all the same.
		c.expect.notCreated(owner.GetUID(), names, !object.Refused(err))
		if ctx.Err() == nil { // else it is this process that ends, or leads no more: nothing is wrong with the pods
			c.tell(owner, Create, names[0], err)
		}
		return err
	}
	var first error
	for i, r := range results {
		name := names[i]
		switch {
		case r.Err == nil:
			c.tell(owner, Create, name, nil)
		case apierrors.IsAlreadyExists(r.Err):
			if !c.awaitsExisting(ctx, owner, name) {
				first = errors.Join(first, r.Err)
			}
		default:
			c.expect.notCreated(owner.GetUID(), []string{name}, !object.Refused(r.Err))
			err := unnamed(r.Err, name, prefix)
			if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				c.tell(owner, Create, name, err)
			}
			if first == nil {
				first = err
			}
		}
	}
	return first
}

// awaitsExisting says whether the pod whose name was taken is the owner's, from a try of unknown outcome: the cache shows it now
// or soon. Someone else's name is given up, for another one or another time.
func (c *Control) awaitsExisting(ctx context.Context, owner Owner, name string) bool {
	p, shown := c.pods.Get(owner.GetNamespace(), name)
	if !shown {
		live, err := object.For(c.client, object.Pod).Get(ctx, owner.GetNamespace(), name)
		if err == nil && metav1.IsControlledBy(live, owner) {
			return true
		}
		p = live
	}
	c.expect.notCreated(owner.GetUID(), []string{name}, false)
	return p != nil && metav1.IsControlledBy(p, owner)
}

// Delete removes the pods, a batch a call. One that has gone already, or whose name another has taken, is no failure.
func (c *Control) Delete(ctx context.Context, owner Owner, pods []*corev1.Pod) error {
	c.expect.deleting(owner.GetUID(), pods, c.clock.Now())
	for len(pods) > 0 {
		part := pods[:min(fullBatch, len(pods))]
		pods = pods[len(part):]
		if err := c.deleteBatch(ctx, owner, part); err != nil {
			for _, p := range pods {
				c.expect.notDeleted(owner.GetUID(), p.UID)
			}
			return err
		}
	}
	return nil
}

func (c *Control) deleteBatch(ctx context.Context, owner Owner, pods []*corev1.Pod) error {
	items := make([]object.Item, 0, len(pods))
	for _, p := range pods {
		items = append(items, object.For(c.client, object.Pod).DeleteItem(p.Namespace, p.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))}))
	}
	results, err := c.client.Batch(ctx, items, false)
	if err != nil {
		for _, p := range pods {
			c.expect.notDeleted(owner.GetUID(), p.UID)
		}
		return fmt.Errorf("delete pods: %w", err)
	}
	var first error
	for i, r := range results {
		p := pods[i]
		if r.Err == nil {
			c.tell(owner, Delete, p.Name, nil)
			continue
		}
		c.expect.notDeleted(owner.GetUID(), p.UID)
		if apierrors.IsNotFound(r.Err) || apierrors.IsConflict(r.Err) {
			continue // gone already, or a namesake took its place
		}
		c.tell(owner, Delete, p.Name, r.Err)
		if first == nil {
			first = r.Err
		}
	}
	return first
}

// Repair patches a pod, a merge patch, and tells of it. A pod that is not what it was seen as is left for the next time.
func (c *Control) Repair(ctx context.Context, owner Owner, p *corev1.Pod, patch []byte) error {
	_, err := object.For(c.client, object.Pod).Patch(ctx, p.Namespace, p.Name, types.MergePatchType, patch, "")
	if apierrors.IsNotFound(err) {
		return nil
	}
	if !apierrors.IsConflict(err) {
		c.tell(owner, Update, p.Name, err)
	}
	return err
}

// Claim adopts and releases pods, the former only where the owner may adopt any.
func (c *Control) Claim(ctx context.Context, o Owner, adopt, release []*corev1.Pod, live owner.Live) error {
	if len(adopt) > 0 {
		if err := owner.MayAdopt(ctx, o, live); err != nil {
			return err
		}
	}
	var finalizers []string
	if c.finalizer != "" {
		finalizers = []string{c.finalizer}
	}
	var items []object.Item
	for _, p := range adopt {
		patch, err := owner.AdoptPatch(o, c.kind, p, finalizers...)
		if err != nil {
			return err
		}
		items = append(items, c.patch(p, patch))
	}
	for _, p := range release {
		patch, err := owner.ReleasePatch(o.GetUID(), p, finalizers...)
		if err != nil {
			return err
		}
		items = append(items, c.patch(p, patch))
	}
	if len(items) == 0 {
		return nil
	}
	results, err := c.client.Batch(ctx, items, false)
	if err != nil {
		return fmt.Errorf("claim pods: %w", err)
	}
	var problems []error
	for _, r := range results {
		if r.Err != nil && !apierrors.IsNotFound(r.Err) {
			problems = append(problems, r.Err)
		}
	}
	return errors.Join(problems...)
}

func (c *Control) patch(p *corev1.Pod, patch []byte) object.Item {
	return object.For(c.client, object.Pod).PatchItem(p.Namespace, p.Name, types.MergePatchType, patch, "")
}
