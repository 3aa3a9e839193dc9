package plugin

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/admission"
)

func (p *NodeRestriction) pod(ctx context.Context, a *admission.Attributes, node string) error {
	old, _ := a.Old.(*corev1.Pod)
	switch {
	case a.Subresource == "" && a.Operation == admission.Create:
		pod, ok := a.Object.(*corev1.Pod)
		if !ok {
			return nil
		}
		return p.mirror(ctx, a, pod, node)
	case a.Subresource == "" && a.Operation == admission.Delete:
		if old != nil && old.Spec.NodeName != node {
			return a.Forbidden(fmt.Errorf("node %q can only delete pods with spec.nodeName set to itself", node))
		}
	case a.Subresource == "":
		return a.Forbidden(fmt.Errorf("unexpected operation %q, node %q can only create and delete mirror pods", a.Operation, node))
	case a.Subresource == "status":
		return restrictStatus(a, old, node)
	case a.Subresource == "eviction":
		return p.eviction(ctx, a, node)
	default:
		return a.Forbidden(fmt.Errorf("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", a.Subresource))
	}
	return nil
}

// eviction asks for the pod itself: what is refused before there is one in hand comes here with its name alone.
func (p *NodeRestriction) eviction(ctx context.Context, a *admission.Attributes, node string) error {
	pod, err := known[*corev1.Pod](ctx, p.Objects, "pods", a.Namespace, a.Name)
	if apierrors.IsNotFound(err) {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pod"}, a.Name)
	}
	if err != nil {
		return a.Forbidden(err)
	}
	if pod.Spec.NodeName != node {
		return a.Forbidden(fmt.Errorf("node %s can only evict pods with spec.nodeName set to itself", node))
	}
	return nil
}

func restrictStatus(a *admission.Attributes, old *corev1.Pod, node string) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || old == nil {
		return nil
	}
	switch {
	case old.Spec.NodeName != node:
		return a.Forbidden(fmt.Errorf("node %q can only update pod status for pods with spec.nodeName set to itself", node))
	case !maps.Equal(old.Labels, pod.Labels):
		return a.Forbidden(fmt.Errorf("node %q cannot update labels through pod status", node))
	case !equality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses):
		return a.Forbidden(fmt.Errorf("node %q cannot update resource claim statues", node))
	case !equality.Semantic.DeepEqual(old.Status.ExtendedResourceClaimStatus, pod.Status.ExtendedResourceClaimStatus):
		return a.Forbidden(fmt.Errorf("node %q cannot update extended resource claim status", node))
	}
	return nil
}

// mirror checks the object that a node makes for a static pod: it may refer to nothing in the API but its node.
func (p *NodeRestriction) mirror(ctx context.Context, a *admission.Attributes, pod *corev1.Pod, node string) error {
	if _, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]; !ok {
		return a.Forbidden(fmt.Errorf("pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, node))
	}
	if pod.Spec.NodeName != node {
		return a.Forbidden(fmt.Errorf("node %q can only create pods with spec.nodeName set to itself", node))
	}
	if len(pod.OwnerReferences) > 1 {
		return a.Forbidden(fmt.Errorf("node %q can only create pods with a single owner reference set to itself", node))
	}
	if len(pod.OwnerReferences) == 0 {
		return a.Forbidden(fmt.Errorf("node %q can only create pods with an owner reference set to itself", node))
	}
	owner := pod.OwnerReferences[0]
	switch {
	case owner.APIVersion != "v1" || owner.Kind != "Node" || owner.Name != node:
		return a.Forbidden(fmt.Errorf("node %q can only create pods with an owner reference set to itself", node))
	case owner.Controller == nil || !*owner.Controller:
		return a.Forbidden(fmt.Errorf("node %q can only create pods with a controller owner reference set to itself", node))
	case owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion:
		return a.Forbidden(fmt.Errorf("node %q must not set blockOwnerDeletion on an owner reference", node))
	}
	known, err := p.Objects.Get(ctx, "", "nodes", "", node)
	if err != nil {
		return err
	}
	if owner.UID != known.GetUID() {
		return a.Forbidden(fmt.Errorf("node %s UID mismatch: expected %s got %s", owner.Name, owner.UID, known.GetUID()))
	}
	if what := podspec.Referred(&pod.Spec); what != "" {
		return a.Forbidden(fmt.Errorf("node %q can not create pods that reference %s", node, what))
	}
	return nil
}
