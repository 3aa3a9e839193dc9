package deployment

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
)

func validate(d *appsv1.Deployment) field.ErrorList {
	spec, path := &d.Spec, field.NewPath("spec")
	errs := check.NonNegative(deref(spec.Replicas), path.Child("replicas"))
	switch {
	case spec.Selector == nil:
		errs = append(errs, field.Required(path.Child("selector"), ""))
	default:
		errs = append(errs, metavalidation.ValidateLabelSelector(spec.Selector,
			metavalidation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
		if len(spec.Selector.MatchLabels)+len(spec.Selector.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(path.Child("selector"), spec.Selector, "empty selector is invalid for deployment"))
		}
	}
	// A selector that is not there matches nothing.
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err != nil {
		errs = append(errs, field.Invalid(path.Child("selector"), spec.Selector, "invalid label selector"))
	} else {
		errs = append(errs, podspec.ValidateReplicated(&spec.Template, selector, path.Child("template"))...)
	}
	errs = append(errs, validateStrategy(&spec.Strategy, path.Child("strategy"))...)
	errs = append(errs, check.NonNegative(spec.MinReadySeconds, path.Child("minReadySeconds"))...)
	if n := spec.RevisionHistoryLimit; n != nil {
		errs = append(errs, check.NonNegative(*n, path.Child("revisionHistoryLimit"))...)
	}
	if n := spec.ProgressDeadlineSeconds; n != nil {
		errs = append(errs, check.NonNegative(*n, path.Child("progressDeadlineSeconds"))...)
		if *n <= spec.MinReadySeconds {
			errs = append(errs, field.Invalid(path.Child("progressDeadlineSeconds"), *n, "must be greater than minReadySeconds"))
		}
	}
	return errs
}

func validateStrategy(s *appsv1.DeploymentStrategy, path *field.Path) field.ErrorList {
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Forbidden(path.Child("rollingUpdate"),
				"may not be specified when strategy `type` is '"+string(appsv1.RecreateDeploymentStrategyType)+"'")}
		}
		return nil
	case appsv1.RollingUpdateDeploymentStrategyType:
		if s.RollingUpdate == nil {
			return field.ErrorList{field.Required(path.Child("rollingUpdate"), "this should be defaulted and never be nil")}
		}
		return validateRollingUpdate(s.RollingUpdate, path.Child("rollingUpdate"))
	}
	return field.ErrorList{field.NotSupported(path, *s,
		[]appsv1.DeploymentStrategyType{appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType})}
}

func validateRollingUpdate(r *appsv1.RollingUpdateDeployment, path *field.Path) field.ErrorList {
	unavailable, surge := zeroed(r.MaxUnavailable), zeroed(r.MaxSurge)
	errs := podspec.IntOrPercent(unavailable, path.Child("maxUnavailable"))
	errs = append(errs, podspec.IntOrPercent(surge, path.Child("maxSurge"))...)
	if amount(unavailable) == 0 && amount(surge) == 0 {
		errs = append(errs, field.Invalid(path.Child("maxUnavailable"), unavailable,
			"may not be 0 when `maxSurge` is 0"))
	}
	return append(errs, podspec.AtMostAll(unavailable, path.Child("maxUnavailable"))...)
}

func zeroed(v *intstr.IntOrString) intstr.IntOrString {
	if v == nil {
		return intstr.FromInt32(0)
	}
	return *v
}

// amount is the number or the percentage.
func amount(v intstr.IntOrString) int {
	if v.Type == intstr.Int {
		return v.IntValue()
	}
	if len(validation.IsValidPercent(v.StrVal)) > 0 {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSuffix(v.StrVal, "%"))
	if err != nil {
		return 0
	}
	return n
}

func validateUpdate(d, old *appsv1.Deployment) field.ErrorList {
	return check.Same(d.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))
}

func validateStatusUpdate(d, old *appsv1.Deployment) field.ErrorList {
	s, path := &d.Status, field.NewPath("status")
	errs := check.NonNegative(s.ObservedGeneration, path.Child("observedGeneration"))
	for _, c := range []struct {
		name string
		n    int32
	}{
		{"replicas", s.Replicas}, {"updatedReplicas", s.UpdatedReplicas}, {"readyReplicas", s.ReadyReplicas},
		{"availableReplicas", s.AvailableReplicas}, {"unavailableReplicas", s.UnavailableReplicas},
		{"terminatingReplicas", deref(s.TerminatingReplicas)}, {"collisionCount", deref(s.CollisionCount)},
	} {
		errs = append(errs, check.NonNegative(c.n, path.Child(c.name))...)
	}
	for _, c := range []struct {
		name    string
		n, most int32
		text    string
	}{
		{"updatedReplicas", s.UpdatedReplicas, s.Replicas, "cannot be greater than status.replicas"},
		{"readyReplicas", s.ReadyReplicas, s.Replicas, "cannot be greater than status.replicas"},
		{"availableReplicas", s.AvailableReplicas, s.Replicas, "cannot be greater than status.replicas"},
		{"availableReplicas", s.AvailableReplicas, s.ReadyReplicas, "cannot be greater than readyReplicas"},
	} {
		if c.n > c.most {
			errs = append(errs, field.Invalid(path.Child(c.name), c.n, c.text))
		}
	}
	if was := old.Status.CollisionCount; was != nil {
		if s.CollisionCount == nil || *s.CollisionCount < *was {
			errs = append(errs, field.Invalid(path.Child("collisionCount"), deref(s.CollisionCount), "cannot be decremented"))
		}
	}
	return errs
}
