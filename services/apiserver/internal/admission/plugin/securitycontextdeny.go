package plugin

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/admission"
)

// SecurityContextDeny refuses pods that choose their user, groups or SELinux labels. Kubernetes removed it in 1.30.
type SecurityContextDeny struct{}

// Name implements admission.Plugin.
func (SecurityContextDeny) Name() string { return "SecurityContextDeny" }

// Handles implements admission.Plugin.
func (SecurityContextDeny) Handles(a *admission.Attributes) bool {
	return a.Is("", "pods") && a.Subresource == "" && (a.Operation == admission.Create || a.Operation == admission.Update)
}

// Validate implements admission.Validator.
func (SecurityContextDeny) Validate(_ context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	refused := ""
	if s := pod.Spec.SecurityContext; s != nil {
		switch {
		case s.SupplementalGroups != nil:
			refused = "pod.Spec.SecurityContext.SupplementalGroups is forbidden"
		case s.SELinuxOptions != nil:
			refused = "pod.Spec.SecurityContext.SELinuxOptions is forbidden"
		case s.RunAsUser != nil:
			refused = "pod.Spec.SecurityContext.RunAsUser is forbidden"
		case s.FSGroup != nil:
			refused = "pod.Spec.SecurityContext.FSGroup is forbidden"
		}
	}
	eachContainer(&pod.Spec, func(c *corev1.Container, _ *field.Path) {
		switch {
		case refused != "" || c.SecurityContext == nil:
		case c.SecurityContext.SELinuxOptions != nil:
			refused = "SecurityContext.SELinuxOptions is forbidden"
		case c.SecurityContext.RunAsUser != nil:
			refused = "SecurityContext.RunAsUser is forbidden"
		}
	})
	if refused != "" {
		return a.Forbidden(errors.New(refused))
	}
	return nil
}
