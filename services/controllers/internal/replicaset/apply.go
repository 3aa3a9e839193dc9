package replicaset

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"

	"howdah.dev/kit/object"
)

const (
	// firstBatch is how many pods are tried before the template is known to work.
	firstBatch = 16
	// fullBatch is how many writes go into one call from then on.
	fullBatch = 500
)

// apply creates or deletes pods. The failure is what the status should tell;
// the error asks for another try.
func (c *replicaSets) apply(ctx context.Context, rs *appsv1.ReplicaSet, plan Plan) (*Failure, error) {
	var err error
	switch {
	case plan.Create > 0:
		if err = c.create(ctx, rs, plan.Create); err != nil {
			return &Failure{"FailedCreate", err.Error()}, err
		}
	case len(plan.Delete) > 0:
		if err = c.delete(ctx, rs, plan.Delete); err != nil {
			return &Failure{"FailedDelete", err.Error()}, err
		}
	}
	return nil, nil
}

// create makes n pods, a batch a call. The first batch is small, and a batch
// with a failure is the last: a template that admission refuses must not
// flood the API. A set that failed before starts with one pod and doubles.
func (c *replicaSets) create(ctx context.Context, rs *appsv1.ReplicaSet, n int) error {
	names := c.names(rs, n)
	c.expect.creating(rs.UID, names, c.clock.Now())
	size, proven := firstBatch, false
	if lastFailure(rs) != nil {
		size = 1
	}
	for len(names) > 0 {
		part := names[:min(size, len(names))]
		names = names[len(part):]
		if err := c.createBatch(ctx, rs, part); err != nil {
			c.expect.notCreated(rs.UID, names, false)
			if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				return nil // everything here is about to go
			}
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
func (c *replicaSets) createBatch(ctx context.Context, rs *appsv1.ReplicaSet, names []string) error {
	pods := object.For(c.client, object.Pod)
	items := make([]object.Item, 0, len(names))
	for _, n := range names {
		items = append(items, pods.CreateItem(podOf(rs, c.kind, n)))
	}
	results, err := c.client.Batch(ctx, items, false)
	if err != nil {
		// The call failed whole: some of it may have landed all the same.
		c.expect.notCreated(rs.UID, names, !certain(err))
		c.events.Eventf(rs, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
		return err
	}
	var first error
	for i, r := range results {
		name := names[i]
		switch {
		case r.Err == nil:
			c.events.Eventf(rs, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %s", name)
		case apierrors.IsAlreadyExists(r.Err):
			// Ours from a try of unknown outcome: the cache shows it now or soon.
			// Someone else's: give the name up and try another one.
			if p, ok := c.pods.Get(rs.Namespace, name); ok {
				c.expect.notCreated(rs.UID, []string{name}, false)
				if !metav1.IsControlledBy(p, rs) {
					first = errors.Join(first, r.Err)
				}
			}
		default:
			c.expect.notCreated(rs.UID, []string{name}, !certain(r.Err))
			if !apierrors.HasStatusCause(r.Err, corev1.NamespaceTerminatingCause) {
				c.events.Eventf(rs, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", r.Err)
			}
			if first == nil {
				first = r.Err
			}
		}
	}
	return first
}

// certain says that a failed write has left nothing behind.
func certain(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code < 500
}

// names returns n names for new pods: first those whose creation may have
// landed already, so that trying again cannot make a second pod.
func (c *replicaSets) names(rs *appsv1.ReplicaSet, n int) []string {
	names := make([]string, 0, n)
	taken := map[string]bool{}
	add := func(name string) {
		if _, exists := c.pods.Get(rs.Namespace, name); !exists && !taken[name] {
			taken[name] = true
			names = append(names, name)
		}
	}
	for _, name := range c.expect.takeUnsure(rs.UID, n) {
		add(name)
	}
	for len(names) < n {
		add(prefix(rs) + rand.String(5))
	}
	return names
}

// prefix is the generateName of the set's pods, as short as a host name
// with five more letters needs it.
func prefix(rs *appsv1.ReplicaSet) string {
	p := rs.Name + "-"
	return p[:min(len(p), 58)]
}

// podOf returns a pod of the set's template. It shares the template's parts.
func podOf(rs *appsv1.ReplicaSet, kind schema.GroupVersionKind, name string) *corev1.Pod {
	t := &rs.Spec.Template
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: rs.Namespace, Name: name, GenerateName: prefix(rs),
			Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, kind)},
		},
		Spec: t.Spec,
	}
}

// delete removes the pods, a batch a call.
func (c *replicaSets) delete(ctx context.Context, rs *appsv1.ReplicaSet, pods []*corev1.Pod) error {
	c.expect.deleting(rs.UID, pods, c.clock.Now())
	for len(pods) > 0 {
		part := pods[:min(fullBatch, len(pods))]
		pods = pods[len(part):]
		if err := c.deleteBatch(ctx, rs, part); err != nil {
			for _, p := range pods {
				c.expect.notDeleted(rs.UID, p.UID)
			}
			return err
		}
	}
	return nil
}

func (c *replicaSets) deleteBatch(ctx context.Context, rs *appsv1.ReplicaSet, pods []*corev1.Pod) error {
	items := make([]object.Item, 0, len(pods))
	for _, p := range pods {
		items = append(items, object.For(c.client, object.Pod).DeleteItem(p.Namespace, p.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))}))
	}
	results, err := c.client.Batch(ctx, items, false)
	if err != nil {
		for _, p := range pods {
			c.expect.notDeleted(rs.UID, p.UID)
		}
		return fmt.Errorf("delete pods: %w", err)
	}
	var first error
	for i, r := range results {
		p := pods[i]
		if r.Err == nil {
			c.events.Eventf(rs, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %s", p.Name)
			continue
		}
		c.expect.notDeleted(rs.UID, p.UID)
		if apierrors.IsNotFound(r.Err) || apierrors.IsConflict(r.Err) {
			continue // gone already, or a namesake took its place
		}
		c.events.Eventf(rs, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", r.Err)
		if first == nil {
			first = r.Err
		}
	}
	return first
}
