package job

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/row"
)

// The bounds of policies.
const (
	mostRules      = 20
	mostExitCodes  = 255
	mostConditions = 20
	mostIndexText  = 64 * 1024
)

func validateFailurePolicy(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if s.PodFailurePolicy == nil {
		return nil
	}
	at := path.Child("rules")
	errs := tooMany(at, len(s.PodFailurePolicy.Rules), mostRules)
	names := containerNames(&s.Template.Spec)
	for i := range s.PodFailurePolicy.Rules {
		errs = append(errs, validateFailureRule(s, &s.PodFailurePolicy.Rules[i], names, at.Index(i))...)
	}
	return errs
}

func validateFailureRule(s *batchv1.JobSpec, r *batchv1.PodFailurePolicyRule, names map[string]bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("action")
	switch {
	case r.Action == "":
		errs = append(errs, field.Required(at, fmt.Sprintf("valid values: %q", []batchv1.PodFailurePolicyAction{
			batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex, batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore,
		})))
	case r.Action == batchv1.PodFailurePolicyActionFailIndex && s.BackoffLimitPerIndex == nil:
		errs = append(errs, field.Invalid(at, r.Action, "requires the backoffLimitPerIndex to be set"))
	default:
		errs = append(errs, check.OneOf(r.Action, at, batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionFailIndex,
			batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionCount)...)
	}
	if r.OnExitCodes != nil {
		errs = append(errs, validateExitCodes(r.OnExitCodes, names, path.Child("onExitCodes"))...)
	}
	conditions := path.Child("onPodConditions")
	errs = append(errs, tooMany(conditions, len(r.OnPodConditions), mostConditions)...)
	for i, c := range r.OnPodConditions {
		errs = append(errs, check.QualifiedName(string(c.Type), conditions.Index(i).Child("type"))...)
		errs = append(errs, check.Choice(c.Status, conditions.Index(i).Child("status"), corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown)...)
	}
	switch {
	case r.OnExitCodes != nil && len(r.OnPodConditions) > 0:
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported"))
	case r.OnExitCodes == nil && len(r.OnPodConditions) == 0:
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required"))
	}
	return errs
}

func validateExitCodes(c *batchv1.PodFailurePolicyOnExitCodesRequirement, names map[string]bool, path *field.Path) field.ErrorList {
	operators := []batchv1.PodFailurePolicyOnExitCodesOperator{batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn}
	var errs field.ErrorList
	if c.Operator == "" {
		errs = append(errs, field.Required(path.Child("operator"), fmt.Sprintf("valid values: %q", operators)))
	} else {
		errs = check.OneOf(c.Operator, path.Child("operator"), operators...)
	}
	if c.ContainerName != nil && !names[*c.ContainerName] {
		errs = append(errs, field.Invalid(path.Child("containerName"), *c.ContainerName, "must be one of the container or initContainer names in the pod template"))
	}
	values := path.Child("values")
	if len(c.Values) == 0 {
		return append(errs, field.Invalid(values, c.Values, "at least one value is required"))
	}
	errs = append(errs, tooMany(values, len(c.Values), mostExitCodes)...)
	ordered := true
	seen := map[int32]bool{}
	for i, v := range c.Values {
		if c.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && v == 0 {
			errs = append(errs, field.Invalid(values.Index(i), v, "must not be 0 for the In operator"))
		}
		if seen[v] {
			errs = append(errs, field.Duplicate(values.Index(i), v))
		}
		seen[v] = true
		ordered = ordered && (i == 0 || c.Values[i-1] <= v)
	}
	if !ordered {
		errs = append(errs, field.Invalid(values, c.Values, "must be ordered"))
	}
	return errs
}

func validateSuccessPolicy(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if s.SuccessPolicy == nil {
		return nil
	}
	if row.Deref(s.CompletionMode) != batchv1.IndexedCompletion {
		return field.ErrorList{field.Invalid(path, *s.SuccessPolicy, "requires indexed completion mode")}
	}
	at := path.Child("rules")
	if len(s.SuccessPolicy.Rules) == 0 {
		return field.ErrorList{field.Required(at, "at least one rules must be specified when the successPolicy is specified")}
	}
	errs := tooMany(at, len(s.SuccessPolicy.Rules), mostRules)
	for i, r := range s.SuccessPolicy.Rules {
		rule := at.Index(i)
		if r.SucceededCount == nil && r.SucceededIndexes == nil {
			errs = append(errs, field.Required(rule, "at least one of succeededCount or succeededIndexes must be specified"))
		}
		count := row.Deref(s.Completions)
		if r.SucceededIndexes != nil {
			text := *r.SucceededIndexes
			if len(text) > mostIndexText {
				errs = append(errs, field.TooLong(rule.Child("succeededIndexes"), text, mostIndexText))
			}
			runs, err := indexes(text, row.Deref(s.Completions))
			if err != nil {
				errs = append(errs, field.Invalid(rule.Child("succeededIndexes"), text, "error parsing succeededIndexes: "+err.Error()))
			}
			if count = total(runs); err != nil {
				count = 0 // nothing counts of what cannot be read
			}
		}
		if r.SucceededCount != nil {
			c := rule.Child("succeededCount")
			errs = append(errs, check.NonNegative(*r.SucceededCount, c)...)
			if n := *r.SucceededCount; n > row.Deref(s.Completions) {
				errs = append(errs, field.Invalid(c, n, fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", row.Deref(s.Completions))))
			}
			if n := *r.SucceededCount; r.SucceededIndexes != nil && n > count {
				errs = append(errs, field.Invalid(c, n, fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", count)))
			}
		}
	}
	return errs
}
