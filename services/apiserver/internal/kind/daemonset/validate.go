package daemonset

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/workload"
)

func validate(d, old *appsv1.DaemonSet) field.ErrorList {
	var selectors metavalidation.LabelSelectorValidationOptions
	if old != nil {
		selectors = check.Selectors(old.Spec.Selector)
	}
	spec, path := &d.Spec, field.NewPath("spec")
	template := path.Child("template")
	errs := metavalidation.ValidateLabelSelector(spec.Selector, selectors, path.Child("selector"))
	// A selector that is not there matches nothing.
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil && !selector.Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, field.Invalid(template.Child("metadata", "labels"), spec.Template.Labels, workload.Mismatch))
	}
	if spec.Selector != nil && len(spec.Selector.MatchLabels)+len(spec.Selector.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(path.Child("selector"), spec.Selector, "empty selector is invalid for daemonset"))
	}
	errs = append(errs, podspec.ValidateTemplate(&spec.Template, template)...)
	errs = append(errs, workload.Runs(&spec.Template, "DaemonSet", template)...)
	errs = append(errs, check.NonNegative(spec.MinReadySeconds, path.Child("minReadySeconds"))...)
	errs = append(errs, validateStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"))...)
	return append(errs, check.NonNegative(row.Deref(spec.RevisionHistoryLimit), path.Child("revisionHistoryLimit"))...)
}

func validateStrategy(s *appsv1.DaemonSetUpdateStrategy, path *field.Path) field.ErrorList {
	switch s.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
		return nil
	case appsv1.RollingUpdateDaemonSetStrategyType:
		if s.RollingUpdate == nil {
			return field.ErrorList{field.Required(path.Child("rollingUpdate"), "")}
		}
		return validateRollingUpdate(s.RollingUpdate, path.Child("rollingUpdate"))
	}
	return field.ErrorList{field.NotSupported(path, *s,
		[]appsv1.DaemonSetUpdateStrategyType{appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType})}
}

func validateRollingUpdate(r *appsv1.RollingUpdateDaemonSet, path *field.Path) field.ErrorList {
	errs := workload.Portion(r.MaxUnavailable, path.Child("maxUnavailable"))
	errs = append(errs, workload.Portion(r.MaxSurge, path.Child("maxSurge"))...)
	unavailable, surge := workload.Amount(r.MaxUnavailable) != 0, workload.Amount(r.MaxSurge) != 0
	switch {
	case unavailable && surge:
		errs = append(errs, field.Invalid(path.Child("maxSurge"), r.MaxSurge, "may not be set when maxUnavailable is non-zero"))
	case !unavailable && !surge:
		errs = append(errs, field.Required(path.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
	}
	return errs
}

func validateUpdate(d, old *appsv1.DaemonSet) field.ErrorList {
	return check.Same(d.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))
}

func validateStatus(d, old *appsv1.DaemonSet) field.ErrorList {
	s, path := &d.Status, field.NewPath("status")
	errs := workload.Counts(path,
		workload.Count{Name: "currentNumberScheduled", N: s.CurrentNumberScheduled},
		workload.Count{Name: "numberMisscheduled", N: s.NumberMisscheduled},
		workload.Count{Name: "desiredNumberScheduled", N: s.DesiredNumberScheduled},
		workload.Count{Name: "numberReady", N: s.NumberReady})
	errs = append(errs, check.NonNegative(s.ObservedGeneration, path.Child("observedGeneration"))...)
	errs = append(errs, workload.Counts(path,
		workload.Count{Name: "updatedNumberScheduled", N: s.UpdatedNumberScheduled},
		workload.Count{Name: "numberAvailable", N: s.NumberAvailable},
		workload.Count{Name: "numberUnavailable", N: s.NumberUnavailable},
		workload.Count{Name: "collisionCount", N: row.Deref(s.CollisionCount)})...)
	return append(errs, workload.Collisions(s.CollisionCount, old.Status.CollisionCount, path)...)
}
