package podspec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

func validateSpread(list []corev1.TopologySpreadConstraint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, c := range list {
		at := path.Index(i)
		errs = append(errs, check.Positive(c.MaxSkew, at.Child("maxSkew"))...)
		if c.TopologyKey == "" {
			errs = append(errs, field.Required(at.Child("topologyKey"), "can not be empty"))
		}
		errs = append(errs, check.OneOf(c.WhenUnsatisfiable, at.Child("whenUnsatisfiable"), corev1.DoNotSchedule, corev1.ScheduleAnyway)...)
		// One constraint a pair of key and action; the first of them is named.
		if slices.ContainsFunc(list[i+1:], func(o corev1.TopologySpreadConstraint) bool {
			return o.TopologyKey == c.TopologyKey && o.WhenUnsatisfiable == c.WhenUnsatisfiable
		}) {
			errs = append(errs, field.Duplicate(at.Child("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)))
		}
		if n := c.MinDomains; n != nil {
			errs = append(errs, check.Positive(*n, at.Child("minDomains"))...)
			if c.WhenUnsatisfiable != corev1.DoNotSchedule {
				errs = append(errs, field.Invalid(at.Child("minDomains"), *n,
					fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule, c.WhenUnsatisfiable)))
			}
		}
		if p := c.NodeAffinityPolicy; p != nil {
			errs = append(errs, check.OneOf(*p, at.Child("nodeAffinityPolicy"), corev1.NodeInclusionPolicyIgnore, corev1.NodeInclusionPolicyHonor)...)
		}
		if p := c.NodeTaintsPolicy; p != nil {
			errs = append(errs, check.OneOf(*p, at.Child("nodeTaintsPolicy"), corev1.NodeInclusionPolicyIgnore, corev1.NodeInclusionPolicyHonor)...)
		}
		errs = append(errs, validateLabelKeys(c.MatchLabelKeys, c.LabelSelector, at.Child("matchLabelKeys"))...)
		errs = append(errs, repeatedKeys(c.MatchLabelKeys, c.LabelSelector, at)...)
		errs = append(errs, metavalidation.ValidateLabelSelector(c.LabelSelector, metavalidation.LabelSelectorValidationOptions{}, at.Child("labelSelector"))...)
	}
	return errs
}
