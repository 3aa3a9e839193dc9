package pack

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
)

// Apply writes the plan in one call for what is named by its kind and key. Its error is a conflict where the plan
// came from a cache that was behind, and else the first failure, in Kubernetes' words. It returns the slices as they were written. metrics may be nil.
func Apply(ctx context.Context, client *object.Client, of string, p Plan, metrics *Metrics) ([]*discoveryv1.EndpointSlice, error) {
	if p.Empty() {
		return nil, nil
	}
	resource := object.For(client, object.EndpointSlice)
	var (
		items      []object.Item
		operations []string
		told       []string // the operations in the words of failures
	)
	add := func(operation, name string, item object.Item) {
		items, operations, told = append(items, item), append(operations, operation), append(told, operation+name+" EndpointSlice")
	}
	for _, slice := range p.Create {
		add("create", "", resource.CreateItem(slice))
	}
	for _, slice := range p.Update {
		add("update", " "+slice.Name, resource.UpdateItem(slice, ""))
	}
	for _, slice := range p.Delete {
		add("delete", " "+slice.Name, resource.DeleteItem(slice.Namespace, slice.Name,
			metav1.DeleteOptions{Preconditions: object.AsSeen(slice)}))
	}
	results, err := client.Batch(ctx, items, false)
	if err != nil {
		return nil, fmt.Errorf("write endpoint slices: %w", err)
	}
	var (
		behind, problem error
		written         []*discoveryv1.EndpointSlice
	)
	for i, r := range results {
		switch {
		case r.Err == nil:
			metrics.wrote(operations[i])
			if operations[i] == "delete" {
				continue
			}
			if slice, err := object.Decode(object.EndpointSlice, r.Object); err == nil {
				written = append(written, slice)
			}
		case apierrors.HasStatusCause(r.Err, corev1.NamespaceTerminatingCause), operations[i] == "delete" && apierrors.IsNotFound(r.Err):
		case apierrors.IsConflict(r.Err):
			behind = r.Err
		case apierrors.IsAlreadyExists(r.Err):
			behind = apierrors.NewConflict(object.EndpointSlice.GroupResource(), "", r.Err)
		case problem == nil:
			problem = fmt.Errorf("failed to %s for %s: %w", told[i], of, r.Err)
		}
	}
	if problem != nil {
		return written, problem
	}
	return written, behind
}
