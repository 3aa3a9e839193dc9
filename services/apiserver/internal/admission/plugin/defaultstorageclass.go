package plugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/registry"
)

// The annotations by which a class is the default one, and by which an object names its class in the old way.
const (
	defaultStorageAnnotation     = "storageclass.kubernetes.io/is-default-class"
	defaultStorageAnnotationBeta = "storageclass.beta.kubernetes.io/is-default-class"
	ingressClassAnnotation       = "kubernetes.io/ingress.class"
)

// DefaultStorageClass gives claims that name no class the default one.
type DefaultStorageClass struct{ Objects admission.Objects }

// Name implements admission.Plugin.
func (*DefaultStorageClass) Name() string { return "DefaultStorageClass" }

// Handles implements admission.Plugin.
func (*DefaultStorageClass) Handles(a *admission.Attributes) bool {
	return a.Operation == admission.Create && a.Subresource == "" && a.Is("", "persistentvolumeclaims")
}

// Admit implements admission.Mutator.
func (p *DefaultStorageClass) Admit(ctx context.Context, a *admission.Attributes) error {
	claim, ok := a.Object.(*corev1.PersistentVolumeClaim)
	if !ok || claim.Spec.StorageClassName != nil {
		return nil
	}
	if _, named := claim.Annotations[corev1.BetaStorageClassAnnotation]; named {
		return nil
	}
	class := newest(p.Objects.List(ctx, storagev1.GroupName, "storageclasses", ""), func(obj registry.Object) bool {
		marks := obj.GetAnnotations()
		return marks[defaultStorageAnnotation] == "true" || marks[defaultStorageAnnotationBeta] == "true"
	})
	if class != nil {
		name := class.GetName()
		claim.Spec.StorageClassName = &name
	}
	return nil
}

// DefaultIngressClass gives Ingresses that name no class the default one.
type DefaultIngressClass struct{ Objects admission.Objects }

// Name implements admission.Plugin.
func (*DefaultIngressClass) Name() string { return "DefaultIngressClass" }

// Handles implements admission.Plugin.
func (*DefaultIngressClass) Handles(a *admission.Attributes) bool {
	return a.Operation == admission.Create && a.Subresource == "" && a.Is(networkingv1.GroupName, "ingresses")
}

// Admit implements admission.Mutator.
func (p *DefaultIngressClass) Admit(ctx context.Context, a *admission.Attributes) error {
	ingress, ok := a.Object.(*networkingv1.Ingress)
	if !ok || ingress.Spec.IngressClassName != nil {
		return nil
	}
	if _, named := ingress.Annotations[ingressClassAnnotation]; named {
		return nil
	}
	class := newest(p.Objects.List(ctx, networkingv1.GroupName, "ingressclasses", ""), func(obj registry.Object) bool {
		return obj.GetAnnotations()[networkingv1.AnnotationIsDefaultIngressClass] == "true"
	})
	if class != nil {
		name := class.GetName()
		ingress.Spec.IngressClassName = &name
	}
	return nil
}

// newest returns of the objects that are wanted the one made last, of several the first by name, or nil.
func newest(objects []registry.Object, wanted func(registry.Object) bool) registry.Object {
	var found registry.Object
	for _, obj := range objects {
		if !wanted(obj) {
			continue
		}
		if found == nil {
			found = obj
			continue
		}
		made, before := obj.GetCreationTimestamp(), found.GetCreationTimestamp()
		if before.Before(&made) || made.Equal(&before) && obj.GetName() < found.GetName() {
			found = obj
		}
	}
	return found
}
