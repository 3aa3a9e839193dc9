package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/podspec"
)

// Scopes returns everything that an object must be for the quota to count it.
func Scopes(spec *corev1.ResourceQuotaSpec) []corev1.ScopedResourceSelectorRequirement {
	var all []corev1.ScopedResourceSelectorRequirement
	for _, s := range spec.Scopes {
		all = append(all, corev1.ScopedResourceSelectorRequirement{ScopeName: s, Operator: corev1.ScopeSelectorOpExists})
	}
	if spec.ScopeSelector != nil {
		all = append(all, spec.ScopeSelector.MatchExpressions...)
	}
	return all
}

// Counts reports whether the quota's scopes let it count the object.
func Counts(spec *corev1.ResourceQuotaSpec, obj any) bool {
	for _, s := range Scopes(spec) {
		if !InScope(s, obj) {
			return false
		}
	}
	return true
}

// InScope reports whether a scope holds an object. Only pods and claims have any.
func InScope(s corev1.ScopedResourceSelectorRequirement, obj any) bool {
	switch o := obj.(type) {
	case *corev1.Pod:
		return podInScope(s, o)
	case *corev1.PersistentVolumeClaim:
		if s.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
			return false
		}
		return selected(s, attributeClasses(o))
	}
	return false
}

func podInScope(s corev1.ScopedResourceSelectorRequirement, pod *corev1.Pod) bool {
	deadline := pod.Spec.ActiveDeadlineSeconds
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return deadline != nil && *deadline >= 0
	case corev1.ResourceQuotaScopeNotTerminating:
		return deadline == nil || *deadline < 0
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort(pod)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort(pod)
	case corev1.ResourceQuotaScopePriorityClass:
		if pod.Spec.PriorityClassName == "" {
			return selected(s, nil)
		}
		return selected(s, []string{pod.Spec.PriorityClassName})
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossesNamespaces(pod)
	}
	return false
}

// selected compares the names that an object has with those that a scope selects.
func selected(s corev1.ScopedResourceSelectorRequirement, names []string) bool {
	any := slices.ContainsFunc(names, func(n string) bool { return slices.Contains(s.Values, n) })
	switch s.Operator {
	case corev1.ScopeSelectorOpExists:
		return len(names) > 0
	case corev1.ScopeSelectorOpDoesNotExist:
		return len(names) == 0
	case corev1.ScopeSelectorOpIn:
		return any
	case corev1.ScopeSelectorOpNotIn:
		return !any
	}
	return false
}

func attributeClasses(c *corev1.PersistentVolumeClaim) []string {
	var names []string
	if n := c.Spec.VolumeAttributesClassName; n != nil && *n != "" {
		names = append(names, *n)
	}
	if n := c.Status.CurrentVolumeAttributesClassName; n != nil && *n != "" {
		names = append(names, *n)
	}
	if m := c.Status.ModifyVolumeStatus; m != nil && m.TargetVolumeAttributesClassName != "" {
		names = append(names, m.TargetVolumeAttributesClassName)
	}
	return names
}

// bestEffort reports whether the pod asks for neither CPU nor memory.
func bestEffort(pod *corev1.Pod) bool { return podspec.QOSClass(pod) == corev1.PodQOSBestEffort }

func crossesNamespaces(pod *corev1.Pod) bool {
	if pod.Spec.Affinity == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	weighted := func(list []corev1.WeightedPodAffinityTerm) {
		for _, w := range list {
			terms = append(terms, w.PodAffinityTerm)
		}
	}
	if a := pod.Spec.Affinity.PodAffinity; a != nil {
		terms = append(terms, a.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted(a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := pod.Spec.Affinity.PodAntiAffinity; a != nil {
		terms = append(terms, a.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted(a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}
