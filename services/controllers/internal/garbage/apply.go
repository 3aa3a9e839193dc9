package garbage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/discovery"
)

// lag is how long after the beginning of a deletion the graph may still miss
// dependents: until then the API is asked. Timestamps have whole seconds.
const lag = 3 * time.Second

// remoteLag is how long an extension API server may take to tell of an owner's dependents before what is known of them has to do.
const remoteLag = 5 * time.Second

// batchSize is how many writes go into one call.
const batchSize = 500

// collect decides about objects whose owners may be gone, and carries that
// out in batches. Each write holds only for the object as it was seen.
func (c *collector) collect(ctx context.Context, nodes []*node) error {
	var (
		items    []object.Item
		problems []error
	)
	verified := map[string]ownerState{}
	for _, n := range nodes {
		a, err := c.decide(ctx, n, verified)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		item, ok, err := write(c.client, n, a)
		if err != nil {
			problems = append(problems, err)
		} else if ok {
			items = append(items, item)
		}
	}
	if err := c.send(ctx, items); err != nil {
		// Alone, so that a conflict stays recognizable as one.
		if len(problems) == 0 {
			return err
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// send writes the items and returns the first failure that another try may mend.
func (c *collector) send(ctx context.Context, items []object.Item) error {
	var first error
	for len(items) > 0 {
		part := items[:min(batchSize, len(items))]
		items = items[len(part):]
		results, err := c.client.Batch(ctx, part, false)
		if err != nil {
			return fmt.Errorf("collect garbage: %w", err)
		}
		for _, r := range results {
			if r.Err != nil && !apierrors.IsNotFound(r.Err) && (first == nil || apierrors.IsConflict(first)) {
				first = r.Err
			}
		}
	}
	return first
}

func (c *collector) decide(ctx context.Context, n *node, verified map[string]ownerState) (action, error) {
	states := make([]ownerState, 0, len(n.meta.OwnerReferences))
	for _, ref := range n.meta.OwnerReferences {
		s, err := c.state(ctx, n, ref, verified)
		if err != nil {
			return action{}, err
		}
		states = append(states, s)
	}
	dependents := c.graph.dependentsOf(n.meta.UID)
	circle := false
	for _, d := range dependents {
		circle = circle || d.foreground()
	}
	circle = circle && blocksAny(n.meta)
	return decide(n.meta, states, len(dependents) > 0, circle), nil
}

// state finds out about one owner: from the graph where it shows the very
// object or has seen it end, else from the API, once a collect.
func (c *collector) state(ctx context.Context, n *node, ref metav1.OwnerReference, verified map[string]ownerState) (ownerState, error) {
	if owner := c.graph.get(ref.UID); owner != nil && owner.is(ref, n.meta.Namespace) {
		if owner.foreground() {
			return waiting, nil
		}
		return present, nil
	}
	if c.graph.ended(ref, n.meta.Namespace) {
		return absent, nil
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return present, nil // no such kind can be asked for
	}
	kind, ok := c.kindOf(gv.WithKind(ref.Kind))
	if !ok {
		return present, fmt.Errorf("%s/%s: the API does not serve its owner's kind %s %s", n.meta.Namespace, n.meta.Name, ref.APIVersion, ref.Kind)
	}
	if kind.Namespaced && n.meta.Namespace == "" {
		c.invalid(n, ref)
		return invalid, nil
	}
	namespace := ""
	if kind.Namespaced {
		namespace = n.meta.Namespace
	}
	key := fmt.Sprint(kind.GVK, namespace, ref.Name, ref.UID)
	if s, ok := verified[key]; ok {
		return s, nil
	}
	owner, err := object.For(c.client, kind).Get(ctx, namespace, ref.Name)
	switch {
	case apierrors.IsNotFound(err) && !namesObject(err):
		// As of an extension API server that is not there any more, or does not know its own kinds.
		return present, fmt.Errorf("%s/%s: the API does not have its owner's kind %s %s itself", n.meta.Namespace, n.meta.Name, ref.APIVersion, ref.Kind)
	case apierrors.IsNotFound(err) || err == nil && owner.UID != ref.UID:
		if o := c.graph.get(ref.UID); o != nil && o.meta.Namespace != "" && o.meta.Namespace != n.meta.Namespace { // it lives, but elsewhere
			c.invalid(n, ref)
		}
		verified[key] = absent
	case err != nil:
		return present, fmt.Errorf("look for owner %s %s: %w", ref.Kind, ref.Name, err)
	default:
		verified[key] = present
	}
	return verified[key], nil
}

// namesObject reports whether a refusal is about the object, not about its kind.
func namesObject(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name != "" &&
		!apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) // a page that a client has made a Status of
}

// kindOf finds the served resource of a kind, in whatever version.
func (c *collector) kindOf(gvk schema.GroupVersionKind) (object.Kind[*metav1.PartialObjectMetadata], bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, res := range c.resources {
		if res.GVK.Kind == gvk.Kind && sameGroup(res.GVK.Group, gvk.Group) {
			return res.Metadata(), true
		}
	}
	return object.Kind[*metav1.PartialObjectMetadata]{}, false
}

// invalid tells the object's readers that its owner cannot be one.
func (c *collector) invalid(n *node, ref metav1.OwnerReference) {
	about := &corev1.ObjectReference{
		Kind: n.resource.GVK.Kind, APIVersion: n.resource.GVK.GroupVersion().String(),
		Namespace: n.meta.Namespace, Name: n.meta.Name, UID: n.meta.UID,
	}
	c.events.Eventf(about, corev1.EventTypeWarning, "OwnerRefInvalidNamespace", "ownerRef [%s/%s, namespace: , name: %s, uid: %s] does not exist in namespace %q",
		ref.APIVersion, ref.Kind, ref.Name, ref.UID, n.meta.Namespace)
}

// write returns the item that carries an action out; ok is false where there is none.
func write(client *object.Client, n *node, a action) (item object.Item, ok bool, err error) {
	resource := object.For(client, n.resource.Metadata())
	switch {
	case a.Delete && a.Unblock:
		// The event of this write comes back here, and then nothing blocks.
		item, err = refsItem(resource, n, unblocked(n.meta.OwnerReferences))
		return item, err == nil, err
	case a.Delete:
		return resource.DeleteItem(n.meta.Namespace, n.meta.Name, metav1.DeleteOptions{
			Preconditions:     object.AsSeen(n.meta),
			PropagationPolicy: &a.Policy,
		}), true, nil
	case len(a.Drop) > 0:
		item, err = refsItem(resource, n, without(n.meta.OwnerReferences, a.Drop))
		return item, err == nil, err
	}
	return item, false, nil
}

func refsItem(resource object.Resource[*metav1.PartialObjectMetadata], n *node, refs []metav1.OwnerReference) (object.Item, error) {
	return metaItem(resource, n, map[string]any{"ownerReferences": refs})
}

// metaItem patches metadata of an object that is still as it was seen.
func metaItem(resource object.Resource[*metav1.PartialObjectMetadata], n *node, fields map[string]any) (object.Item, error) {
	fields["uid"], fields["resourceVersion"] = n.meta.UID, n.meta.ResourceVersion
	patch, err := json.Marshal(map[string]any{"metadata": fields})
	if err != nil {
		return object.Item{}, err
	}
	return resource.PatchItem(n.meta.Namespace, n.meta.Name, types.MergePatchType, patch, ""), nil
}

// orphan lets the dependents go and then the object. It asks the API for
// them: one that the graph does not show yet would be collected as soon as
// its owner is gone.
func (c *collector) orphan(ctx context.Context, n *node) error {
	dependents, err := c.list(ctx, n)
	if err != nil {
		return fmt.Errorf("orphan the dependents of %s: %w", n.meta.Name, err)
	}
	var items []object.Item
	for _, d := range dependents {
		item, err := refsItem(object.For(c.client, d.resource.Metadata()), d, without(d.meta.OwnerReferences, []types.UID{n.meta.UID}))
		if err != nil {
			return err
		}
		items = append(items, item)
	}
	if err := c.send(ctx, items); err != nil {
		return err
	}
	return c.removeFinalizer(ctx, n, metav1.FinalizerOrphanDependents)
}

// list returns the owner's dependents as the API has them now. Those of a
// namespaced owner are in its namespace, others that refer to it are taken from the graph.
func (c *collector) list(ctx context.Context, owner *node) ([]*node, error) {
	c.mu.Lock()
	resources := c.resources
	c.mu.Unlock()
	var dependents []*node
	for _, res := range resources {
		if !res.Can("list", "patch") || ignored[res.GroupResource()] || owner.meta.Namespace != "" && !res.Namespaced {
			continue
		}
		objects, err := c.objects(ctx, res, owner.meta.Namespace)
		if apierrors.IsNotFound(err) {
			continue // the kind has gone
		}
		if err != nil && res.Remote {
			// Deletions elsewhere do not wait for a server that is away. What is known of its objects stands in.
			slog.WarnContext(ctx, "the dependents that an extension API server keeps are taken from what was known of them", "kind", res.GVK.String(), "err", err)
			for _, d := range c.graph.dependentsOfKind(owner.meta.UID, res) {
				if !elsewhere(owner, d) { // the others follow
					dependents = append(dependents, d)
				}
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			if len(without(o.OwnerReferences, []types.UID{owner.meta.UID})) < len(o.OwnerReferences) {
				dependents = append(dependents, &node{res, o})
			}
		}
	}
	for _, d := range c.graph.dependentsOf(owner.meta.UID) {
		if elsewhere(owner, d) {
			dependents = append(dependents, d)
		}
	}
	return dependents, nil
}

// elsewhere reports whether a dependent is outside the namespace of its owner.
func elsewhere(owner, dependent *node) bool {
	return owner.meta.Namespace != "" && dependent.meta.Namespace != owner.meta.Namespace
}

func (c *collector) objects(ctx context.Context, res discovery.Resource, namespace string) ([]*metav1.PartialObjectMetadata, error) {
	if res.Remote {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, remoteLag)
		defer cancel()
	}
	objects, _, err := object.For(c.client, res.Metadata()).List(ctx, namespace, metav1.ListOptions{})
	return objects, err
}

// finish ends a foreground deletion when nothing blocks it any more, and
// sees to its dependents until then.
func (c *collector) finish(ctx context.Context, n *node) error {
	var rest []*node
	blocked := false
	for _, d := range c.graph.dependentsOf(n.meta.UID) {
		blocked = blocked || blocks(d.meta, n.meta.UID)
		if d.meta.DeletionTimestamp == nil {
			rest = append(rest, d)
		}
	}
	if !blocked && c.clock.Since(n.meta.DeletionTimestamp.Time) < lag {
		live, err := c.list(ctx, n)
		if err != nil {
			return fmt.Errorf("finish the deletion of %s: %w", n.meta.Name, err)
		}
		for _, d := range live {
			if blocks(d.meta, n.meta.UID) {
				return nil // its event is on the way, and its end will call again
			}
		}
	}
	if !blocked {
		return c.removeFinalizer(ctx, n, metav1.FinalizerDeleteDependents)
	}
	if len(rest) > batchSize/10 {
		return c.collect(ctx, rest)
	}
	for _, d := range rest {
		c.ask(itemKey(d.meta.UID), trace.SpanContextFromContext(ctx))
	}
	return nil
}

func (c *collector) removeFinalizer(ctx context.Context, n *node, name string) error {
	kept := []string{}
	for _, f := range n.meta.Finalizers {
		if f != name {
			kept = append(kept, f)
		}
	}
	item, err := metaItem(object.For(c.client, n.resource.Metadata()), n, map[string]any{"finalizers": kept})
	if err != nil {
		return err
	}
	return c.send(ctx, []object.Item{item})
}
