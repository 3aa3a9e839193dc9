package service

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

// validateIPs checks cluster addresses, families and policy, each and together. The stored addresses may stay as they are written.
func validateIPs(s *corev1.Service, path *field.Path, stored []string) field.ErrorList {
	spec := &s.Spec
	if spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	ips, families := path.Child("clusterIPs"), path.Child("ipFamilies")
	var errs field.ErrorList
	if len(spec.ClusterIPs) > 0 && spec.ClusterIP == "" {
		errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "must be empty when `clusterIP` is not specified"))
	} else if len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] != spec.ClusterIP {
		errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "first value must match `clusterIP`"))
	}
	for i, f := range spec.IPFamilies {
		errs = append(errs, check.OneOf(f, families.Index(i), corev1.IPv4Protocol, corev1.IPv6Protocol)...)
		if slices.Contains(spec.IPFamilies[:i], f) {
			errs = append(errs, field.Duplicate(families.Index(i), f))
		}
	}
	if p := spec.IPFamilyPolicy; p != nil {
		errs = append(errs, check.OneOf(*p, path.Child("ipFamilyPolicy"), corev1.IPFamilyPolicySingleStack,
			corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack)...)
	}
	none := len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] == corev1.ClusterIPNone
	var each field.ErrorList
	if none && len(spec.ClusterIPs) > 1 {
		each = append(each, field.Invalid(ips, spec.ClusterIPs, "'None' must be the first and only value"))
	}
	for i, ip := range spec.ClusterIPs {
		if i > 0 || !none {
			each = append(each, validation.IsValidIPForLegacyField(ips.Index(i), ip, true, stored)...)
		}
	}
	errs = append(errs, each...)
	if len(spec.ClusterIPs) > 2 {
		errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "may only hold up to 2 values"))
	}
	if none || len(each) > 0 { // what is no address has no family
		return errs
	}
	addresses := spec.ClusterIPs
	if len(addresses) > 1 && !slices.ContainsFunc(addresses, func(ip string) bool { return familyOf(ip) != familyOf(addresses[0]) }) {
		errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "may specify no more than one IP for each IP family"))
	}
	for i, ip := range addresses[:min(len(addresses), len(spec.IPFamilies))] {
		if f := spec.IPFamilies[i]; known(f) && familyOf(ip) != f {
			errs = append(errs, field.Invalid(ips.Index(i), ip, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", f, i)))
		}
	}
	return errs
}

func known(f corev1.IPFamily) bool { return f == corev1.IPv4Protocol || f == corev1.IPv6Protocol }

// validateUpdate tells first what must not change, and then all that is wrong.
func validateUpdate(s, old *corev1.Service) field.ErrorList {
	return append(validateChange(s, old), validateOver(s, old)...)
}

// validateChange holds a Service to its addresses and families while its type needs them.
func validateChange(s, old *corev1.Service) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && old.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		!equal(s.Spec.LoadBalancerClass, old.Spec.LoadBalancerClass) {
		errs = append(errs, field.Invalid(path.Child("loadBalancerClass"), s.Spec.LoadBalancerClass, "may not change once set"))
	}
	switch c := s.Spec.LoadBalancerClass; { // all of it is told once more later, as in Kubernetes
	case c == nil:
	case s.Spec.Type == corev1.ServiceTypeLoadBalancer:
		errs = append(errs, check.QualifiedName(*c, path.Child("loadBalancerClass"))...)
	default:
		errs = append(errs, field.Forbidden(path.Child("loadBalancerClass"), "may only be used when `type` is 'LoadBalancer'"))
	}
	// What is malformed is told as that.
	if !needsClusterIP(s) || !needsClusterIP(old) || len(validateIPs(s, path, old.Spec.ClusterIPs)) > 0 {
		return errs
	}
	now, was := &s.Spec, &old.Spec
	if needsHealthCheckPort(s) && needsHealthCheckPort(old) && now.HealthCheckNodePort != was.HealthCheckNodePort {
		errs = append(errs, field.Forbidden(path.Child("healthCheckNodePort"), "field is immutable"))
	}
	for i := range was.ClusterIPs {
		at := path.Child("clusterIPs").Index(i)
		switch {
		case i >= len(now.ClusterIPs) && i == 0:
			errs = append(errs, field.Invalid(at, now.ClusterIPs, "primary clusterIP can not be unset"))
		case i >= len(now.ClusterIPs): // the families' policy allows it, or was told
		case now.ClusterIPs[i] != was.ClusterIPs[i]:
			errs = append(errs, field.Invalid(at, now.ClusterIPs, "may not change once set"))
		}
	}
	if headless(s) || len(was.IPFamilies) == 0 {
		return errs
	}
	at := path.Child("ipFamilies").Index(0) // with it changes the second
	switch {
	case len(now.IPFamilies) == 0:
		errs = append(errs, field.Invalid(at, now.IPFamilies, "primary ipFamily can not be unset"))
	case now.IPFamilies[0] == was.IPFamilies[0]:
	case len(now.ClusterIPs) != len(was.ClusterIPs): // so Kubernetes shows it
		errs = append(errs, field.Invalid(at, now.ClusterIPs, "may not change once set"))
	default:
		errs = append(errs, field.Invalid(at, now.IPFamilies, "may not change once set"))
	}
	return errs
}

// warnings is what a client is told whose fields have no effect.
func warnings(s, _ *corev1.Service) []string {
	var out []string
	if headless(s) {
		if s.Spec.LoadBalancerIP != "" {
			out = append(out, "spec.loadBalancerIP is ignored for headless services")
		}
		if len(s.Spec.ExternalIPs) > 0 {
			out = append(out, "spec.externalIPs is ignored for headless services")
		}
		if s.Spec.SessionAffinity != corev1.ServiceAffinityNone {
			out = append(out, "spec.SessionAffinity is ignored for headless services")
		}
	}
	path := field.NewPath("spec")
	for i, ip := range s.Spec.ExternalIPs {
		out = append(out, validation.GetWarningsForIP(path.Child("externalIPs").Index(i), ip)...)
	}
	switch external := s.Spec.Type == corev1.ServiceTypeExternalName; {
	case external && len(s.Spec.ExternalIPs) > 0:
		out = append(out, `spec.externalIPs is ignored when spec.type is "ExternalName"`)
	case !headless(s) && len(s.Spec.ExternalIPs) > 0:
		out = append(out, "spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	if s.Spec.Type != corev1.ServiceTypeExternalName && s.Spec.ExternalName != "" {
		out = append(out, `spec.externalName is ignored when spec.type is not "ExternalName"`)
	}
	if s.Spec.LoadBalancerIP != "" {
		out = append(out, validation.GetWarningsForIP(path.Child("loadBalancerIP"), s.Spec.LoadBalancerIP)...)
	}
	for i, r := range s.Spec.LoadBalancerSourceRanges {
		out = append(out, validation.GetWarningsForCIDR(path.Child("loadBalancerSourceRanges").Index(i), r)...)
	}
	if d := s.Spec.TrafficDistribution; d != nil && *d == corev1.ServiceTrafficDistributionPreferClose {
		out = append(out, `spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"`)
	}
	return out
}
