package plugin

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// mergeTolerations joins two lists and leaves out what another toleration covers.
func mergeTolerations(first, second []corev1.Toleration) []corev1.Toleration {
	all := append(slices.Clone(first), second...)
	var merged []corev1.Toleration
next:
	for i, t := range all {
		for _, kept := range merged {
			if covers(kept, t) {
				continue next
			}
		}
		for _, later := range all[i+1:] {
			// Of two that cover each other the later one counts, as its seconds may differ.
			if covers(later, t) {
				continue next
			}
		}
		merged = append(merged, t)
	}
	return merged
}

// covers reports whether all taints that b tolerates are tolerated by a, at least as long.
func covers(a, b corev1.Toleration) bool {
	if equality.Semantic.DeepEqual(a, b) {
		return true
	}
	if a.Key != b.Key && (a.Key != "" || a.Operator != corev1.TolerationOpExists) {
		return false
	}
	if a.Effect != b.Effect && a.Effect != "" {
		return false
	}
	if a.Effect == corev1.TaintEffectNoExecute && a.TolerationSeconds != nil {
		if b.TolerationSeconds == nil || *a.TolerationSeconds < *b.TolerationSeconds {
			return false
		}
	}
	switch a.Operator {
	case corev1.TolerationOpEqual, "":
		return (b.Operator == corev1.TolerationOpEqual || b.Operator == "") && a.Value == b.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}
