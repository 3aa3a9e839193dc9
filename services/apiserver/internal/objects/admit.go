package objects

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/registry"
)

// admit asks mutating admission. Managed fields that it leaves invalid are set back to what they were before, and whoever asks is warned, in Kubernetes' words.
func (s *Server) admit(ctx context.Context, r *request, a *admission.Attributes, obj registry.Object) error {
	before := obj.GetManagedFields()
	if err := s.Admission.Admit(ctx, a); err != nil {
		return err
	}
	after := obj.GetManagedFields()
	if same(before, after) {
		return nil
	}
	if err := managedfields.ValidateManagedFields(after); err != nil {
		obj.SetManagedFields(before)
		r.warn(".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; " +
			"please fix your requests: " + err.Error())
	}
	return nil
}

// same reports whether two slices are one: admission that changes managed fields makes others.
func same(a, b []metav1.ManagedFieldsEntry) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
