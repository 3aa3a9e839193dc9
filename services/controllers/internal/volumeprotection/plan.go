// Package volumeprotection lets claims, volumes and attributes' classes go whose deletion has begun, as soon as nobody uses them: it takes off the
// finalizers that the admission plugin StorageObjectInUseProtection puts on.
package volumeprotection

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	pods "howdah.dev/services/controllers/internal/pod"
)

// The finalizers.
const (
	ClaimFinalizer  = "kubernetes.io/pvc-protection"
	VolumeFinalizer = "kubernetes.io/pv-protection"
	ClassFinalizer  = "kubernetes.io/vac-protection"
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

// ClassFree reports whether a class's finalizer may go: its deletion has begun, and no claim or volume has it, had it or is to get it.
func ClassFree(class *storagev1.VolumeAttributesClass, claims []*corev1.PersistentVolumeClaim, volumes []*corev1.PersistentVolume) bool {
	if class.DeletionTimestamp == nil || !slices.Contains(class.Finalizers, ClassFinalizer) {
		return false
	}
	return !slices.ContainsFunc(claims, func(c *corev1.PersistentVolumeClaim) bool { return slices.Contains(classesOfClaim(c), class.Name) }) &&
		!slices.ContainsFunc(volumes, func(v *corev1.PersistentVolume) bool { return slices.Contains(classesOfVolume(v), class.Name) })
}

func classesOfClaim(claim *corev1.PersistentVolumeClaim) []string {
	names := given(claim.Spec.VolumeAttributesClassName, claim.Status.CurrentVolumeAttributesClassName)
	if s := claim.Status.ModifyVolumeStatus; s != nil && s.TargetVolumeAttributesClassName != "" {
		names = append(names, s.TargetVolumeAttributesClassName)
	}
	return names
}

func classesOfVolume(volume *corev1.PersistentVolume) []string {
	return given(volume.Spec.VolumeAttributesClassName)
}

func given(names ...*string) []string {
	var list []string
	for _, n := range names {
		if n != nil && *n != "" {
			list = append(list, *n)
		}
	}
	return list
}

// uses reports whether a pod that has a node, or an ephemeral volume of it, holds the claim.
func uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	if pod.Namespace != claim.Namespace || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.Spec.NodeName == "" {
		return false
	}
	return slices.Contains(pods.Claims(pod), claim.Name)
}

// without returns the finalizers but one.
func without(finalizers []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == name })
}
