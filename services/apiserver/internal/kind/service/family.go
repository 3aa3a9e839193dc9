package service

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// setFamilies decides the address families of a Service and its policy for
// them, from what it asks for and what the cluster has.
func (a allocation) setFamilies(s *corev1.Service) field.ErrorList {
	if !needsClusterIP(s) {
		return nil
	}
	spec, path := &s.Spec, field.NewPath("spec")
	if spec.IPFamilyPolicy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		if len(spec.IPFamilies) == 2 || len(spec.ClusterIPs) == 2 {
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilyPolicy = &policy
	}
	policy := *spec.IPFamilyPolicy
	selectorless := headless(s) && len(spec.Selector) == 0
	if policy == corev1.IPFamilyPolicyRequireDualStack && len(a.families) < 2 && !selectorless {
		return field.ErrorList{field.Invalid(path.Child("ipFamilyPolicy"), policy,
			"this cluster is not configured for dual-stack services")}
	}
	if !headless(s) {
		for i, ip := range spec.ClusterIPs {
			if i >= len(spec.IPFamilies) {
				spec.IPFamilies = append(spec.IPFamilies, familyOf(ip))
			}
		}
	}
	if !selectorless {
		for i, f := range spec.IPFamilies {
			if !slices.Contains(a.families, f) {
				return field.ErrorList{field.Invalid(path.Child("ipFamilies").Index(i), f,
					"not configured on this cluster")}
			}
		}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{a.families[0]}
	}
	if policy != corev1.IPFamilyPolicySingleStack && len(spec.IPFamilies) == 1 && (len(a.families) == 2 || selectorless) {
		other := corev1.IPv6Protocol
		if spec.IPFamilies[0] == other {
			other = corev1.IPv4Protocol
		}
		spec.IPFamilies = append(spec.IPFamilies, other)
	}
	return nil
}
