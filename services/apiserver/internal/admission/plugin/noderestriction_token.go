package plugin

import (
	"context"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/registry"
)

// token allows tokens that are bound to a pod of the node.
func (p *NodeRestriction) token(ctx context.Context, a *admission.Attributes, node string) error {
	request, ok := a.Body.(*authenticationv1.TokenRequest)
	if a.Operation != admission.Create || a.Subresource != "token" || !ok {
		return nil
	}
	ref := request.Spec.BoundObjectRef
	if ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "" {
		return a.Forbidden(fmt.Errorf("node requested token not bound to a pod"))
	}
	if ref.UID == "" {
		return a.Forbidden(fmt.Errorf("node requested token with a pod binding without a uid"))
	}
	obj, err := p.Objects.Get(ctx, "", "pods", a.Namespace, ref.Name)
	if apierrors.IsNotFound(err) {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pod"}, ref.Name)
	}
	if err != nil {
		return err
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.UID != ref.UID {
		return a.Forbidden(fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	if pod.Spec.NodeName != node {
		return a.Forbidden(fmt.Errorf("node requested token bound to a pod scheduled on a different node"))
	}
	return p.audience(ctx, a, pod, request.Spec.Audiences)
}

// audience allows the audience that the pod's volumes name, and those that the node may ask for by its permissions. No audience is the
// audience "", which volumes name by naming none.
func (p *NodeRestriction) audience(ctx context.Context, a *admission.Attributes, pod *corev1.Pod, audiences []string) error {
	if len(audiences) > 1 {
		return a.Forbidden(fmt.Errorf("node may only request 0 or 1 audiences"))
	}
	audience := ""
	if len(audiences) == 1 {
		audience = audiences[0]
	}
	named, err := p.named(ctx, pod, audience)
	if named {
		return nil
	}
	if err != nil {
		return a.Forbidden(fmt.Errorf("error validating audience %q: %w", audience, err))
	}
	if p.Authorizer != nil {
		decision, _, err := p.Authorizer.Authorize(ctx, &authz.Attributes{
			User: a.User, Verb: "request-serviceaccounts-token-audience", Version: "v1", Resource: audience, Namespace: a.Namespace, Name: a.Name,
		})
		if err == nil && decision == authz.Allow {
			return nil
		}
	}
	return a.Forbidden(fmt.Errorf("audience %q not found in pod spec volume, %s is not authorized to request tokens for this audience", audience, a.User.Name))
}

// named reports whether a volume of the pod is given tokens for the audience: a projected one, or one whose CSI driver asks for them.
// The error tells which volumes cannot be judged; it does not count where another one names the audience.
func (p *NodeRestriction) named(ctx context.Context, pod *corev1.Pod, audience string) (bool, error) {
	var problems []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.ServiceAccountToken != nil && s.ServiceAccountToken.Audience == audience
		}) {
			return true, nil
		}
		driver, err := p.driver(ctx, pod, v)
		if err == nil && driver != nil && slices.ContainsFunc(driver.Spec.TokenRequests, func(r storagev1.TokenRequest) bool { return r.Audience == audience }) {
			return true, nil
		}
		if err != nil {
			problems = append(problems, err)
		}
	}
	return false, utilerrors.NewAggregate(problems)
}

// driver returns the CSI driver that mounts the volume; nil where none does.
func (p *NodeRestriction) driver(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (*storagev1.CSIDriver, error) {
	name := ""
	switch {
	case v.CSI != nil:
		name = v.CSI.Driver
	case v.PersistentVolumeClaim != nil:
		var err error
		if name, err = p.driverOfClaim(ctx, pod.Namespace, v.PersistentVolumeClaim.ClaimName); err != nil {
			return nil, err
		}
	case v.Ephemeral != nil:
		var err error
		if name, err = p.driverOfClaim(ctx, pod.Namespace, pod.Name+"-"+v.Name); err != nil {
			return nil, err
		}
	}
	if name == "" {
		return nil, nil
	}
	return object[*storagev1.CSIDriver](ctx, p.Objects, "storage.k8s.io", "csidrivers", "csidriver", "", name)
}

// driverOfClaim returns the name of the CSI driver of the volume that the claim is bound to; "" where it has none.
func (p *NodeRestriction) driverOfClaim(ctx context.Context, namespace, name string) (string, error) {
	claim, err := object[*corev1.PersistentVolumeClaim](ctx, p.Objects, "", "persistentvolumeclaims", "persistentvolumeclaim", namespace, name)
	if err != nil {
		return "", err
	}
	volume, err := object[*corev1.PersistentVolume](ctx, p.Objects, "", "persistentvolumes", "persistentvolume", "", claim.Spec.VolumeName)
	if err != nil || volume.Spec.CSI == nil {
		return "", err
	}
	return volume.Spec.CSI.Driver, nil
}

// object reads an object, and says in the singular that it is not there, as Kubernetes does here.
func object[T registry.Object](ctx context.Context, objects admission.Objects, group, resource, singular, namespace, name string) (T, error) {
	var none T
	absent := apierrors.NewNotFound(schema.GroupResource{Group: group, Resource: singular}, name)
	if name == "" {
		return none, absent
	}
	obj, err := objects.Get(ctx, group, resource, namespace, name)
	if apierrors.IsNotFound(err) {
		return none, absent
	}
	if err != nil {
		return none, err
	}
	typed, ok := obj.(T)
	if !ok {
		return none, absent
	}
	return typed, nil
}
