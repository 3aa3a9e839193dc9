package plugin

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/admission"
)

// JobValidation keeps the parallelism of Jobs whose pods start all at once or not at all: the gang has a size. It has an effect only
// where PodGroups are served.
type JobValidation struct{ Objects admission.Objects }

// Name implements admission.Plugin.
func (*JobValidation) Name() string { return "JobValidation" }

// Handles implements admission.Plugin.
func (*JobValidation) Handles(a *admission.Attributes) bool {
	return a.Operation == admission.Update && a.Subresource == "" && a.Is(batchv1.GroupName, "jobs")
}

// Validate implements admission.Validator.
func (p *JobValidation) Validate(ctx context.Context, a *admission.Attributes) error {
	job, ok := a.Object.(*batchv1.Job)
	old, okOld := a.Old.(*batchv1.Job)
	if !ok || !okOld || parallelism(job) == parallelism(old) {
		return nil
	}
	gang, err := p.gang(ctx, job)
	if err != nil || gang == "" {
		return err
	}
	return a.Forbidden(fmt.Errorf("cannot change parallelism for a Job referencing gang-scheduled PodGroup %q", gang))
}

// gang is the name of the PodGroup that has the Job's pods start together; empty where none does.
func (p *JobValidation) gang(ctx context.Context, job *batchv1.Job) (string, error) {
	if group := job.Spec.Template.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		obj, err := p.Objects.Get(ctx, schedulingv1alpha2.GroupName, "podgroups", job.Namespace, *group.PodGroupName)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return together(obj), nil
	}
	for _, obj := range p.Objects.List(ctx, schedulingv1alpha2.GroupName, "podgroups", job.Namespace) {
		if owner := metav1.GetControllerOf(obj); owner != nil && owner.UID == job.UID {
			if name := together(obj); name != "" {
				return name, nil
			}
		}
	}
	return "", nil
}

// together is the name of a PodGroup whose pods start together.
func together(obj metav1.Object) string {
	if group, ok := obj.(*schedulingv1alpha2.PodGroup); ok && group.Spec.SchedulingPolicy.Gang != nil {
		return group.Name
	}
	return ""
}

func parallelism(job *batchv1.Job) int32 {
	if job.Spec.Parallelism == nil {
		return 1 // the default
	}
	return *job.Spec.Parallelism
}
