package node

import (
	"fmt"
	"net"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
)

func validate(n *corev1.Node) field.ErrorList {
	errs := validateAnnotations(n.Annotations)
	// Kubernetes says metadata of the taints and of the swap.
	errs = append(errs, validateTaints(n.Spec.Taints, field.NewPath("metadata", "taints"))...)
	errs = append(errs, validateResources(n)...)
	if s := n.Status.NodeInfo.Swap; s != nil && s.Capacity != nil && *s.Capacity <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "nodeSwapStatus", "capacity"), *s.Capacity, "must be greater than zero"))
	}
	errs = append(errs, validateFeatures(n.Status.DeclaredFeatures, field.NewPath("status", "declaredFeatures"))...)
	return append(errs, validatePodCIDRs(n.Spec.PodCIDRs, field.NewPath("spec", "podCIDRs"))...)
}

func validateResources(n *corev1.Node) field.ErrorList {
	errs := podspec.NodeResources(n.Status.Capacity, field.NewPath("status", "capacity"))
	return append(errs, podspec.NodeResources(n.Status.Allocatable, field.NewPath("status", "allocatable"))...)
}

const longestFeature = 253

// featureName is a name in upper camel case, and perhaps more below it.
var featureName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*(/[A-Za-z0-9]+)*$`)

// validateFeatures checks the names of what a node's agent can do.
func validateFeatures(names []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range names {
		at := path.Index(i)
		switch {
		case i > 0 && name == names[i-1]:
			errs = append(errs, field.Duplicate(at, name))
		case i > 0 && name < names[i-1]:
			errs = append(errs, field.Invalid(at, name, "list must be sorted alphabetically"))
		}
		switch {
		case len(name) > longestFeature:
			errs = append(errs, field.Invalid(at, name, fmt.Sprintf("invalid feature name %q: must be no more than %d characters", name, longestFeature)))
		case !featureName.MatchString(name):
			errs = append(errs, field.Invalid(at, name, fmt.Sprintf("invalid feature name %q: must start with an UpperCamelCase segment, with subsequent "+
				"segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes", name)))
		}
	}
	return errs
}

func validatePodCIDRs(cidrs []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	families := map[bool]bool{}
	for i, c := range cidrs {
		errs = append(errs, validation.IsValidCIDRForLegacyField(path.Index(i), c, true, nil)...)
		if ip, _, err := net.ParseCIDR(c); err == nil {
			families[ip.To4() != nil] = true
		}
	}
	if len(cidrs) < 2 {
		return errs
	}
	if _, err := netutils.IsDualStackCIDRStrings(cidrs); err != nil {
		errs = append(errs, field.InternalError(path, fmt.Errorf("invalid PodCIDRs. failed to check with dual stack with error:%w", err)))
	}
	if len(cidrs) > 2 || len(families) != 2 {
		errs = append(errs, field.Invalid(path, cidrs, "may specify no more than one CIDR for each IP family"))
	}
	return errs
}

func validateTaints(taints []corev1.Taint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, t := range taints {
		path := path.Index(i)
		errs = append(errs, check.QualifiedName(t.Key, path.Child("key"))...)
		if bad := validation.IsValidLabelValue(t.Value); len(bad) > 0 {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, strings.Join(bad, ";")))
		}
		errs = append(errs, check.ListedChoice(t.Effect, path.Child("effect"),
			corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
		id := t.Key + ":" + string(t.Effect)
		if seen[id] {
			dup := field.Duplicate(path, t)
			dup.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, dup)
		}
		seen[id] = true
	}
	return errs
}

// validateUpdate lets taints, schedulability and the first assignment of CIDRs
// and provider through. What a status has is checked here, too: as in Kubernetes, an update of the node says it twice.
func validateUpdate(n, old *corev1.Node) field.ErrorList {
	spec := field.NewPath("spec")
	errs := append(validateAnnotations(n.Annotations), validateResources(n)...)
	errs = append(errs, validateFeatures(n.Status.DeclaredFeatures, field.NewPath("status", "declaredFeatures"))...)
	seen := map[corev1.NodeAddress]bool{}
	for i, a := range n.Status.Addresses {
		if seen[a] {
			errs = append(errs, field.Duplicate(field.NewPath("status", "addresses").Index(i), a))
		}
		seen[a] = true
	}
	errs = append(errs, keepCIDRs(n.Spec.PodCIDRs, old.Spec.PodCIDRs, spec.Child("podCIDRs"))...)
	if old.Spec.ProviderID != "" && old.Spec.ProviderID != n.Spec.ProviderID {
		errs = append(errs, field.Forbidden(spec.Child("providerID"), "node updates may not change providerID except from \"\" to valid"))
	}
	errs = append(errs, validateTaints(n.Spec.Taints, field.NewPath("metadata", "taints"))...)
	if n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(spec.Child("externalID"), "may not be updated"))
	}
	return errs
}

// keepCIDRs has a problem for each range that is another one.
func keepCIDRs(cidrs, old []string, path *field.Path) field.ErrorList {
	problem := field.Forbidden(path, "node updates may not change podCIDR except from \"\" to valid")
	if len(old) > 0 && len(old) != len(cidrs) {
		return field.ErrorList{problem}
	}
	var errs field.ErrorList
	for i := range old {
		if cidrs[i] != old[i] {
			errs = append(errs, problem)
		}
	}
	return errs
}
