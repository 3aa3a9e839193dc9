package plugin

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// nodeLabels are the labels under Kubernetes' domains that a node agent may set of itself.
var nodeLabels = []string{
	corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone,
	corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType, corev1.LabelInstanceTypeStable, corev1.LabelOSStable,
	corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
}

// forbiddenLabels returns, sorted and with commas between, the changed labels by which a node could draw pods to itself that are
// not meant for it.
func forbiddenLabels(before, after map[string]string) string {
	found := map[string]bool{}
	check := func(label string) {
		was, had := before[label]
		is, has := after[label]
		if (was != is || had != has) && forbiddenLabel(label) {
			found[label] = true
		}
	}
	for label := range before {
		check(label)
	}
	for label := range after {
		check(label)
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), ", ")
}

func forbiddenLabel(label string) bool {
	domain, _, ok := strings.Cut(label, "/")
	if !ok {
		return false
	}
	within := func(parent string) bool { return domain == parent || strings.HasSuffix(domain, "."+parent) }
	switch {
	case within(corev1.LabelNamespaceNodeRestriction):
		return true
	case !within("kubernetes.io") && !within("k8s.io"):
		return false
	case within(corev1.LabelNamespaceSuffixKubelet) || within(corev1.LabelNamespaceSuffixNode):
		return false
	}
	return !slices.Contains(nodeLabels, label)
}
