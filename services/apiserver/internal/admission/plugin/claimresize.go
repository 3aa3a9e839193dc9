package plugin

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"howdah.dev/services/apiserver/internal/admission"
)

// PersistentVolumeClaimResize lets only those claims grow whose class allows it.
type PersistentVolumeClaimResize struct{ Objects admission.Objects }

// Name implements admission.Plugin.
func (*PersistentVolumeClaimResize) Name() string { return "PersistentVolumeClaimResize" }

// Handles implements admission.Plugin.
func (*PersistentVolumeClaimResize) Handles(a *admission.Attributes) bool {
	return a.Operation == admission.Update && a.Subresource == "" && a.Is("", "persistentvolumeclaims")
}

// Validate implements admission.Validator.
func (p *PersistentVolumeClaimResize) Validate(ctx context.Context, a *admission.Attributes) error {
	claim, ok := a.Object.(*corev1.PersistentVolumeClaim)
	old, okOld := a.Old.(*corev1.PersistentVolumeClaim)
	if !ok || !okOld {
		return nil
	}
	now, before := claim.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if now.Cmp(before) <= 0 {
		return nil
	}
	if old.Status.Phase != corev1.ClaimBound {
		return a.Forbidden(errors.New("Only bound persistent volume claims can be expanded"))
	}
	if !p.expandable(ctx, claim, old) {
		return a.Forbidden(errors.New("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"))
	}
	return nil
}

func (p *PersistentVolumeClaimResize) expandable(ctx context.Context, claim, old *corev1.PersistentVolumeClaim) bool {
	name := className(claim)
	if name == "" || name != className(old) {
		return false
	}
	obj, err := p.Objects.Get(ctx, storagev1.GroupName, "storageclasses", "", name)
	if err != nil {
		return false
	}
	class, ok := obj.(*storagev1.StorageClass)
	return ok && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion
}

func className(claim *corev1.PersistentVolumeClaim) string {
	if name, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	if claim.Spec.StorageClassName != nil {
		return *claim.Spec.StorageClassName
	}
	return ""
}
