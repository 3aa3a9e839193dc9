package daemonset

import (
	"bytes"
	"maps"
	"slices"

	"go.opentelemetry.io/otel/trace"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
)

func (c *daemonSets) setChanged(old, new *appsv1.DaemonSet) {
	if old != nil && (new == nil || old.UID != new.UID) {
		c.control.Forget(old.UID)
		c.pace.Forget(old.UID)
		c.backoff.forget(old.UID)
	}
	ds := new
	if ds == nil {
		ds = old
	}
	c.queue.Enqueue(object.KeyOf(ds), c.sets.Trace(ds))
}

// nodeChanged wakes the sets that see the node with other eyes than before. Nodes report every few seconds; what they report matters to
// none.
func (c *daemonSets) nodeChanged(old, new *corev1.Node) {
	if old != nil && new != nil && old.UID == new.UID && alike(old, new) {
		return
	}
	by := old
	if new != nil {
		by = new
	}
	for _, ds := range c.sets.List("") {
		if differs(NewFit(ds), old, new) {
			c.queue.Enqueue(object.KeyOf(ds), c.nodes.Trace(by))
		}
	}
}

// alike says whether no set can tell the nodes apart.
func alike(a, b *corev1.Node) bool {
	return maps.Equal(a.Labels, b.Labels) && apiequality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints)
}

// differs says whether the verdict on the node is another one now. A node that is not there has no pods; one that took the place of
// another has lost those.
func differs(fit Fit, old, new *corev1.Node) bool {
	var was, is Verdict
	if old != nil {
		was = fit.Judge(old)
	}
	if new != nil {
		is = fit.Judge(new)
	}
	replaced := old != nil && new != nil && old.UID != new.UID
	return was != is || replaced && is != Verdict{}
}

// revisionChanged wakes the set of a revision: the plan that made it may have been of an older history than the cache shows now. A twin
// of another revision waits until something else wakes the set, as it does with Kubernetes, whose conformance tests look at both.
func (c *daemonSets) revisionChanged(old, new *appsv1.ControllerRevision) {
	by := new
	if new == nil {
		by = old
	}
	ref := metav1.GetControllerOfNoCopy(by)
	if old != nil {
		if was := metav1.GetControllerOfNoCopy(old); was != nil && (new == nil || ref == nil || was.UID != ref.UID) {
			c.enqueueOwner(old.Namespace, was, c.revisions.Trace(by))
		}
	}
	switch {
	case new == nil:
	case ref == nil:
		for _, key := range c.selecting(new) {
			c.queue.Enqueue(key, c.revisions.Trace(new))
		}
	case old != nil || !c.hasTwin(new, ref):
		c.enqueueOwner(new.Namespace, ref, c.revisions.Trace(new))
	}
}

// hasTwin says whether another revision of the same owner holds the same.
func (c *daemonSets) hasTwin(r *appsv1.ControllerRevision, ref *metav1.OwnerReference) bool {
	return slices.ContainsFunc(c.revisions.ByIndex(controller.ByController, string(ref.UID)), func(o *appsv1.ControllerRevision) bool {
		return o.UID != r.UID && bytes.Equal(o.Data.Raw, r.Data.Raw)
	})
}

func (c *daemonSets) enqueueOwner(namespace string, ref *metav1.OwnerReference, by trace.SpanContext) {
	if ref.Kind == kind.Kind && ref.APIVersion == kind.GroupVersion().String() {
		c.queue.Enqueue(object.Key(namespace, ref.Name), by)
	}
}

// selecting returns the keys of the sets that select an orphan.
func (c *daemonSets) selecting(orphan metav1.Object) (keys []string) {
	if len(orphan.GetLabels()) == 0 {
		return nil
	}
	for _, ds := range c.sets.List(orphan.GetNamespace()) {
		if s, err := metav1.LabelSelectorAsSelector(ds.Spec.Selector); err == nil && !s.Empty() && s.Matches(labels.Set(orphan.GetLabels())) {
			keys = append(keys, object.KeyOf(ds))
		}
	}
	return keys
}
