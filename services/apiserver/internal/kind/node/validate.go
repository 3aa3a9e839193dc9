package node

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"howdah.dev/services/apiserver/internal/kind/check"
	"howdah.dev/services/apiserver/internal/kind/podspec"
)

func validate(n *corev1.Node) field.ErrorList {
	spec := field.NewPath("spec")
	// Kubernetes says metadata.
	errs := validateTaints(n.Spec.Taints, field.NewPath("metadata", "taints"))
	status := field.NewPath("status")
	errs = append(errs, podspec.NodeResources(n.Status.Capacity, status.Child("capacity"))...)
	errs = append(errs, podspec.NodeResources(n.Status.Allocatable, status.Child("allocatable"))...)
	errs = append(errs, validateFeatures(n.Status.DeclaredFeatures, status.Child("declaredFeatures"))...)
	return append(errs, validatePodCIDRs(n.Spec.PodCIDRs, spec.Child("podCIDRs"))...)
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
		case slices.Contains(names[:i], name):
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
// and provider through.
func validateUpdate(n, old *corev1.Node) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateTaints(n.Spec.Taints, field.NewPath("metadata", "taints")) // once more, as in Kubernetes
	seen := map[corev1.NodeAddress]bool{}
	for i, a := range n.Status.Addresses {
		if seen[a] {
			errs = append(errs, field.Duplicate(field.NewPath("status", "addresses").Index(i), a))
		}
		seen[a] = true
	}
	if len(old.Spec.PodCIDRs) > 0 && !slices.Equal(old.Spec.PodCIDRs, n.Spec.PodCIDRs) {
		errs = append(errs, field.Forbidden(spec.Child("podCIDRs"), "node updates may not change podCIDR except from \"\" to valid"))
	}
	if old.Spec.ProviderID != "" && old.Spec.ProviderID != n.Spec.ProviderID {
		errs = append(errs, field.Forbidden(spec.Child("providerID"), "node updates may not change providerID except from \"\" to valid"))
	}
	if n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(spec.Child("externalID"), "may not be updated"))
	}
	rest, was := n.Spec.DeepCopy(), old.Spec.DeepCopy()
	for _, s := range []*corev1.NodeSpec{rest, was} {
		s.PodCIDR, s.PodCIDRs, s.ProviderID, s.Taints, s.Unschedulable = "", nil, "", nil, false
		s.ConfigSource, s.DoNotUseExternalID = nil, ""
	}
	if !equality.Semantic.DeepEqual(rest, was) {
		errs = append(errs, field.Forbidden(spec, "node updates may only change labels, taints, or capacity (or configSource, if the DynamicKubeletConfig feature gate is enabled)"))
	}
	return errs
}
