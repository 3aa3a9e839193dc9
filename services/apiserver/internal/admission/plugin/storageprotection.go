package plugin

import (
	"context"
	"slices"

	"howdah.dev/services/apiserver/internal/admission"
)

// StorageObjectInUseProtection has claims, volumes and the classes of their attributes wait with going until nobody uses them: it adds the finalizers that the
// protection controllers take off.
type StorageObjectInUseProtection struct{}

// Name implements admission.Plugin.
func (StorageObjectInUseProtection) Name() string { return "StorageObjectInUseProtection" }

// Handles implements admission.Plugin.
func (StorageObjectInUseProtection) Handles(a *admission.Attributes) bool {
	return a.Operation == admission.Create && a.Subresource == "" && protection(a) != ""
}

// Admit implements admission.Mutator.
func (StorageObjectInUseProtection) Admit(_ context.Context, a *admission.Attributes) error {
	finalizer := protection(a)
	if have := a.Object.GetFinalizers(); !slices.Contains(have, finalizer) {
		a.Object.SetFinalizers(append(slices.Clone(have), finalizer))
	}
	return nil
}

// protection is the finalizer of a kind that is protected, or "".
func protection(a *admission.Attributes) string {
	switch {
	case a.Is("", "persistentvolumeclaims"):
		return "kubernetes.io/pvc-protection"
	case a.Is("", "persistentvolumes"):
		return "kubernetes.io/pv-protection"
	case a.Is("storage.k8s.io", "volumeattributesclasses"):
		return "kubernetes.io/vac-protection"
	}
	return ""
}
