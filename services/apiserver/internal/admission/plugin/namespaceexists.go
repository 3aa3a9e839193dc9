package plugin

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/services/apiserver/internal/admission"
)

// NamespaceExists refuses writes in namespaces that are absent.
type NamespaceExists struct{ Objects admission.Objects }

// Name implements admission.Plugin.
func (*NamespaceExists) Name() string { return "NamespaceExists" }

// Handles implements admission.Plugin.
func (*NamespaceExists) Handles(a *admission.Attributes) bool {
	return a.Namespace != "" && !a.Is("", "namespaces") && a.Operation != admission.Connect
}

// Validate implements admission.Validator.
func (p *NamespaceExists) Validate(ctx context.Context, a *admission.Attributes) error {
	_, err := p.Objects.Get(ctx, "", "namespaces", "", a.Namespace)
	return err
}

// NamespaceAutoProvision makes the namespaces in which objects are created, where they are absent.
type NamespaceAutoProvision struct {
	Objects    admission.Objects
	Namespaces Namespaces
}

// Name implements admission.Plugin.
func (*NamespaceAutoProvision) Name() string { return "NamespaceAutoProvision" }

// Handles implements admission.Plugin.
func (*NamespaceAutoProvision) Handles(a *admission.Attributes) bool {
	return a.Operation == admission.Create && a.Namespace != "" && !a.Is("", "namespaces") && !a.DryRun
}

// Admit implements admission.Mutator.
func (p *NamespaceAutoProvision) Admit(ctx context.Context, a *admission.Attributes) error {
	_, err := p.Objects.Get(ctx, "", "namespaces", "", a.Namespace)
	if !apierrors.IsNotFound(err) {
		return err
	}
	return p.Namespaces.CreateNamespace(ctx, a.Namespace)
}
