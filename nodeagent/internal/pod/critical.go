package pod

import corev1 "k8s.io/api/core/v1"

// SystemCritical is the lowest priority of what the system itself needs.
const SystemCritical = 2_000_000_000

// Critical says whether a pod is one that the system itself needs: those of the node's own manifests are, whatever their priority.
func Critical(p *corev1.Pod) bool {
	return Static(p) || p.Spec.Priority != nil && *p.Spec.Priority >= SystemCritical
}
