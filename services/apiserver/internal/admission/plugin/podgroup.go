package plugin

import (
	"context"
	"fmt"
	"slices"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/services/apiserver/internal/admission"
)

func newPodGroup(a *admission.Attributes) bool {
	return a.Operation == admission.Create && a.Subresource == "" && a.Is(schedulingv1alpha2.GroupName, "podgroups")
}

// PodGroupProtection has groups of pods wait with going until no pod is in them: it adds the finalizer that the protection controller takes
// off.
type PodGroupProtection struct{}

// Name implements admission.Plugin.
func (PodGroupProtection) Name() string { return "PodGroupProtection" }

// Handles implements admission.Plugin.
func (PodGroupProtection) Handles(a *admission.Attributes) bool { return newPodGroup(a) }

// Admit implements admission.Mutator.
func (PodGroupProtection) Admit(_ context.Context, a *admission.Attributes) error {
	const finalizer = "scheduling.k8s.io/podgroup-protection"
	if have := a.Object.GetFinalizers(); !slices.Contains(have, finalizer) {
		a.Object.SetFinalizers(append(slices.Clone(have), finalizer))
	}
	return nil
}

// PodGroupWorkloadExists refuses groups of pods of templates that are not there.
type PodGroupWorkloadExists struct{ Objects admission.Objects }

// Name implements admission.Plugin.
func (*PodGroupWorkloadExists) Name() string { return "PodGroupWorkloadExists" }

// Handles implements admission.Plugin.
func (*PodGroupWorkloadExists) Handles(a *admission.Attributes) bool { return newPodGroup(a) }

// Validate implements admission.Validator.
func (p *PodGroupWorkloadExists) Validate(ctx context.Context, a *admission.Attributes) error {
	group, ok := a.Object.(*schedulingv1alpha2.PodGroup)
	if !ok || group.Spec.PodGroupTemplateRef == nil || group.Spec.PodGroupTemplateRef.Workload == nil {
		return nil
	}
	ref := group.Spec.PodGroupTemplateRef.Workload
	obj, err := p.Objects.Get(ctx, schedulingv1alpha2.GroupName, "workloads", a.Namespace, ref.WorkloadName)
	if apierrors.IsNotFound(err) {
		return a.Forbidden(fmt.Errorf("PodGroup rejected: Workload %q not found", ref.WorkloadName))
	}
	if err != nil {
		return err
	}
	workload, ok := obj.(*schedulingv1alpha2.Workload)
	if !ok || !slices.ContainsFunc(workload.Spec.PodGroupTemplates, func(t schedulingv1alpha2.PodGroupTemplate) bool { return t.Name == ref.PodGroupTemplateName }) {
		return a.Forbidden(fmt.Errorf("PodGroup rejected: PodGroupTemplate %q not found in Workload %q", ref.PodGroupTemplateName, ref.WorkloadName))
	}
	return nil
}
