package plugin

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/apiserver/internal/admission"
)

// DenyServiceExternalIPs refuses external addresses that a Service did not have before.
type DenyServiceExternalIPs struct{}

// Name implements admission.Plugin.
func (DenyServiceExternalIPs) Name() string { return "DenyServiceExternalIPs" }

// Handles implements admission.Plugin.
func (DenyServiceExternalIPs) Handles(a *admission.Attributes) bool {
	return a.Is("", "services") && a.Subresource == "" && (a.Operation == admission.Create || a.Operation == admission.Update)
}

// Validate implements admission.Validator.
func (DenyServiceExternalIPs) Validate(_ context.Context, a *admission.Attributes) error {
	service, ok := a.Object.(*corev1.Service)
	if !ok {
		return nil
	}
	var had []string
	if old, ok := a.Old.(*corev1.Service); ok {
		had = old.Spec.ExternalIPs
	}
	for _, ip := range service.Spec.ExternalIPs {
		if !slices.Contains(had, ip) {
			return a.Forbidden(errors.New("Use of external IPs is denied by admission control."))
		}
	}
	return nil
}
