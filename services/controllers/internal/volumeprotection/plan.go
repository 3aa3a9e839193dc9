// Package volumeprotection lets claims and volumes go whose deletion has begun, as soon as nobody uses them: it takes off the
// finalizers that the admission plugin StorageObjectInUseProtection puts on.
package volumeprotection

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The finalizers.
const (
	ClaimFinalizer  = "kubernetes.io/pvc-protection"
	VolumeFinalizer = "kubernetes.io/pv-protection"
)

// ClaimFree reports whether a claim's finalizer may go: its deletion has begun, and no pod that may still run uses it.
func ClaimFree(claim *corev1.PersistentVolumeClaim, pods []*corev1.Pod) bool {
	if claim.DeletionTimestamp == nil || !slices.Contains(claim.Finalizers, ClaimFinalizer) {
		return false
	}
	return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return uses(pod, claim) })
}

// VolumeFree reports whether a volume's finalizer may go: its deletion has begun, and no claim is bound to it.
func VolumeFree(volume *corev1.PersistentVolume) bool {
	return volume.DeletionTimestamp != nil && slices.Contains(volume.Finalizers, VolumeFinalizer) && volume.Status.Phase != corev1.VolumeBound
}

// uses reports whether a pod that has a node, or an ephemeral volume of it, holds the claim.
func uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	if pod.Namespace != claim.Namespace || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.Spec.NodeName == "" {
		return false
	}
	return slices.Contains(claimsOf(pod), claim.Name)
}

// claimsOf returns the names of the claims that a pod mounts.
func claimsOf(pod *corev1.Pod) []string {
	var names []string
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, pod.Name+"-"+v.Name)
		}
	}
	return names
}

// without returns the finalizers but one.
func without(finalizers []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == name })
}
