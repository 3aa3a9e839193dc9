package admissionregistration

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	namepath "k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

func validateValidatingBinding(b *validatingBinding) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateBound(b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources, path)
	return append(errs, validateActions(b.Spec.ValidationActions, path.Child("validationActions"))...)
}

func validateMutatingBinding(b *mutatingBinding) field.ErrorList {
	errs := validateBound(b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources, field.NewPath("spec"))
	return append(errs, noDeletion(b.Spec.MatchResources, field.NewPath("spec", "matchResources", "resourceRules", "operations"))...)
}

func validateBound(policy string, ref *admissionv1.ParamRef, match *admissionv1.MatchResources, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if policy == "" {
		errs = append(errs, field.Required(path.Child("policyName"), ""))
	} else {
		errs = append(errs, check.Subdomain(policy, path.Child("policyName"))...)
	}
	errs = append(errs, validateParamRef(ref, path.Child("paramRef"))...)
	return append(errs, validateMatch(match, path.Child("matchResources"))...)
}

func validateParamRef(r *admissionv1.ParamRef, path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	const exclusive = "name and selector are mutually exclusive"
	var errs field.ErrorList
	if r.Name != "" {
		errs = append(errs, check.Each(namepath.ValidatePathSegmentName(r.Name, false), r.Name, path.Child("name"))...)
		if r.Selector != nil {
			errs = append(errs, field.Forbidden(path.Child("name"), exclusive))
		}
	}
	errs = append(errs, validateSelector(r.Selector, path.Child("selector"))...)
	if r.Name != "" && r.Selector != nil {
		errs = append(errs, field.Forbidden(path.Child("selector"), exclusive))
	}
	if r.Name == "" && r.Selector == nil {
		errs = append(errs, field.Required(path, "one of name or selector must be specified"))
	}
	at := path.Child("parameterNotFoundAction")
	if r.ParameterNotFoundAction == nil || *r.ParameterNotFoundAction == "" {
		return append(errs, field.Required(at, ""))
	}
	return append(errs, check.Listed(*r.ParameterNotFoundAction, at, admissionv1.DenyAction, admissionv1.AllowAction)...)
}

func validateActions(actions []admissionv1.ValidationAction, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, a := range actions {
		errs = append(errs, check.OneOf(a, path.Index(i), admissionv1.Audit, admissionv1.Deny, admissionv1.Warn)...)
		if slices.Contains(actions[:i], a) {
			errs = append(errs, field.Duplicate(path.Index(i), a))
		}
	}
	if slices.Contains(actions, admissionv1.Deny) && slices.Contains(actions, admissionv1.Warn) {
		errs = append(errs, field.Invalid(path, actions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
	if len(actions) == 0 {
		errs = append(errs, field.Required(path, "at least one validation action is required"))
	}
	return errs
}
