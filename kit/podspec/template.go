package podspec

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

// ValidateTemplate checks a template of any workload.
func ValidateTemplate(t *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	errs := metavalidation.ValidateLabels(t.Labels, path.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(t.Annotations, path.Child("annotations"))...)
	errs = append(errs, ValidateAnnotations(&t.ObjectMeta, &t.Spec, path.Child("annotations"))...)
	errs = append(errs, Validate(&t.Spec, nil, path.Child("spec"))...)
	errs = append(errs, matchAnnotations(t.Annotations, &t.Spec, path.Child("spec"))...)
	if len(t.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template"))
	}
	return errs
}

// ValidateReplicated checks the template of a workload that keeps pods running
// and finds them by selector.
func ValidateReplicated(t *corev1.PodTemplateSpec, selector labels.Selector, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !selector.Empty() && !selector.Matches(labels.Set(t.Labels)) {
		errs = append(errs, field.Invalid(path.Child("metadata", "labels"), t.Labels, "`selector` does not match template `labels`"))
	}
	errs = append(errs, ValidateTemplate(t, path)...)
	errs = append(errs, check.Choice(t.Spec.RestartPolicy, path.Child("spec", "restartPolicy"), corev1.RestartPolicyAlways)...)
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in "+
			"ReplicaSet is not Supported"))
	}
	return errs
}

// IntOrPercent refuses what is neither a number from 0 on nor a percentage.
func IntOrPercent(v intstr.IntOrString, path *field.Path) field.ErrorList {
	if v.Type == intstr.String {
		return check.Each(validation.IsValidPercent(v.StrVal), v, path)
	}
	return check.NonNegative(v.IntVal, path)
}

// AtMostAll refuses percentages above 100.
func AtMostAll(v intstr.IntOrString, path *field.Path) field.ErrorList {
	if v.Type != intstr.String || len(validation.IsValidPercent(v.StrVal)) > 0 {
		return nil
	}
	if n, err := strconv.Atoi(strings.TrimSuffix(v.StrVal, "%")); err == nil && n > 100 {
		return field.ErrorList{field.Invalid(path, v, "must not be greater than 100%")}
	}
	return nil
}

// TemplateWarnings is what to tell the client about a template.
func TemplateWarnings(t *corev1.PodTemplateSpec) []string {
	path := field.NewPath("spec", "template")
	return Warnings(&t.Spec, &t.ObjectMeta, path.Child("spec"), path.Child("metadata", "annotations"))
}
