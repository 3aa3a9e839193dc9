package replicaset

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
)

func validate(rs *appsv1.ReplicaSet) field.ErrorList {
	spec, path := &rs.Spec, field.NewPath("spec")
	errs := check.NonNegative(deref(spec.Replicas), path.Child("replicas"))
	errs = append(errs, check.NonNegative(spec.MinReadySeconds, path.Child("minReadySeconds"))...)
	if spec.Selector == nil {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	} else {
		errs = append(errs, metavalidation.ValidateLabelSelector(spec.Selector,
			metavalidation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
		if len(spec.Selector.MatchLabels)+len(spec.Selector.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(path.Child("selector"), spec.Selector, "empty selector is invalid for deployment"))
		}
	}
	// A selector that is not there matches nothing.
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err != nil {
		return append(errs, field.Invalid(path.Child("selector"), spec.Selector, "invalid label selector"))
	}
	return append(errs, podspec.ValidateReplicated(&spec.Template, selector, path.Child("template"))...)
}

func validateUpdate(rs, old *appsv1.ReplicaSet) field.ErrorList {
	return check.Same(rs.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))
}

func validateStatusUpdate(rs, _ *appsv1.ReplicaSet) field.ErrorList {
	s, path := &rs.Status, field.NewPath("status")
	errs := check.NonNegative(s.ObservedGeneration, path.Child("observedGeneration"))
	for _, c := range []struct {
		name string
		n    int32
	}{
		{"replicas", s.Replicas}, {"fullyLabeledReplicas", s.FullyLabeledReplicas}, {"readyReplicas", s.ReadyReplicas},
		{"availableReplicas", s.AvailableReplicas}, {"terminatingReplicas", deref(s.TerminatingReplicas)},
	} {
		errs = append(errs, check.NonNegative(c.n, path.Child(c.name))...)
	}
	for _, c := range []struct {
		name    string
		n, most int32
		text    string
	}{
		{"fullyLabeledReplicas", s.FullyLabeledReplicas, s.Replicas, "cannot be greater than status.replicas"},
		{"readyReplicas", s.ReadyReplicas, s.Replicas, "cannot be greater than status.replicas"},
		{"availableReplicas", s.AvailableReplicas, s.Replicas, "cannot be greater than status.replicas"},
		{"availableReplicas", s.AvailableReplicas, s.ReadyReplicas, "cannot be greater than readyReplicas"},
	} {
		if c.n > c.most {
			errs = append(errs, field.Invalid(path.Child(c.name), c.n, c.text))
		}
	}
	return errs
}
