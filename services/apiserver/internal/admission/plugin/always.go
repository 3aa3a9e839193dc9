package plugin

import (
	"context"
	"errors"

	"howdah.dev/services/apiserver/internal/admission"
)

// AlwaysAdmit admits everything. Kubernetes keeps it for those who name it in their flags.
type AlwaysAdmit struct{}

// Name implements admission.Plugin.
func (AlwaysAdmit) Name() string { return "AlwaysAdmit" }

// Handles implements admission.Plugin.
func (AlwaysAdmit) Handles(*admission.Attributes) bool { return true }

// Validate implements admission.Validator.
func (AlwaysAdmit) Validate(context.Context, *admission.Attributes) error { return nil }

// AlwaysDeny refuses every write.
type AlwaysDeny struct{}

// Name implements admission.Plugin.
func (AlwaysDeny) Name() string { return "AlwaysDeny" }

// Handles implements admission.Plugin.
func (AlwaysDeny) Handles(*admission.Attributes) bool { return true }

// Validate implements admission.Validator.
func (AlwaysDeny) Validate(_ context.Context, a *admission.Attributes) error {
	return a.Forbidden(errors.New("admission control is denying all modifications"))
}
