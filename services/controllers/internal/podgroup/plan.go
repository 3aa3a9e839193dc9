// Package podgroup lets groups of pods go whose deletion has begun, as soon as no pod is in them: it takes off the finalizer that the
// admission plugin PodGroupProtection puts on.
package podgroup

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
)

// Finalizer keeps a group.
const Finalizer = "scheduling.k8s.io/podgroup-protection"

// Free reports whether a group's finalizer may go: its deletion has begun, and no pod that has not ended is in it.
func Free(group *schedulingv1alpha2.PodGroup, pods []*corev1.Pod) bool {
	if group.DeletionTimestamp == nil || !slices.Contains(group.Finalizers, Finalizer) {
		return false
	}
	return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		return pod.Namespace == group.Namespace && groupOf(pod) == group.Name && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
	})
}

// groupOf is the name of the group of a pod, or "".
func groupOf(pod *corev1.Pod) string {
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return *g.PodGroupName
	}
	return ""
}
