package service

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// setFamilies decides the address families of a Service and its policy for
// them, from what it asks for and what the cluster has. old is nil for a new one.
func (a allocation) setFamilies(s, old *corev1.Service) field.ErrorList {
	if !needsClusterIP(s) {
		return nil
	}
	spec := &s.Spec
	// What selects nothing has the endpoints that somebody gives it, of any family.
	selectorless := headless(s) && len(spec.Selector) == 0
	if spec.IPFamilyPolicy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		if selectorless {
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilyPolicy = &policy
	}
	if errs := a.refuse(s, old, selectorless); len(errs) > 0 {
		return errs
	}
	if !headless(s) {
		for _, ip := range spec.ClusterIPs[min(len(spec.IPFamilies), len(spec.ClusterIPs)):] {
			spec.IPFamilies = append(spec.IPFamilies, familyOf(ip))
		}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{a.families[0]}
	}
	if *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack && len(spec.IPFamilies) == 1 && (len(a.families) == 2 || selectorless) {
		other := corev1.IPv6Protocol
		if spec.IPFamilies[0] == other {
			other = corev1.IPv4Protocol
		}
		spec.IPFamilies = append(spec.IPFamilies, other)
	}
	return nil
}

// refuse returns what this cluster cannot give, or the policy does not want.
func (a allocation) refuse(s, old *corev1.Service, selectorless bool) field.ErrorList {
	spec, path := &s.Spec, field.NewPath("spec")
	policy, at := *spec.IPFamilyPolicy, path.Child("ipFamilyPolicy")
	var errs field.ErrorList
	if policy == corev1.IPFamilyPolicySingleStack {
		const text = "must be 'RequireDualStack' or 'PreferDualStack' when multiple %s are specified"
		if len(spec.ClusterIPs) == 2 {
			errs = append(errs, field.Invalid(at, policy, fmt.Sprintf(text, "cluster IPs")))
		}
		if len(spec.IPFamilies) == 2 {
			errs = append(errs, field.Invalid(at, policy, fmt.Sprintf(text, "IP families")))
		}
	} else if old != nil && needsClusterIP(old) {
		const text = "must be 'SingleStack' to release the secondary %s"
		if len(old.Spec.ClusterIPs) == 2 && len(spec.ClusterIPs) == 1 {
			errs = append(errs, field.Invalid(at, policy, fmt.Sprintf(text, "cluster IP")))
		}
		if len(old.Spec.IPFamilies) == 2 && len(spec.IPFamilies) == 1 {
			errs = append(errs, field.Invalid(at, policy, fmt.Sprintf(text, "IP family")))
		}
	}
	for i, ip := range spec.ClusterIPs {
		if f := familyOf(ip); !headless(s) && i >= len(spec.IPFamilies) && !slices.Contains(a.families, f) {
			errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(i), spec.ClusterIPs, fmt.Sprintf("%s is not configured on this cluster", f)))
		}
	}
	if len(errs) > 0 || selectorless {
		return errs
	}
	if policy == corev1.IPFamilyPolicyRequireDualStack && len(a.families) < 2 {
		errs = append(errs, field.Invalid(at, policy, "this cluster is not configured for dual-stack services"))
	}
	for i, f := range spec.IPFamilies {
		if !slices.Contains(a.families, f) {
			errs = append(errs, field.Invalid(path.Child("ipFamilies").Index(i), f, "not configured on this cluster"))
		}
	}
	return errs
}
