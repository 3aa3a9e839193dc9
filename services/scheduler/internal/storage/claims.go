package storage

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
)

// Use is a pod's use of a claim.
type Use struct {
	Claim string // its name, in the pod's namespace
	// Own says that the claim is made for a generic ephemeral volume of the pod.
	Own bool
}

// Uses returns the claims that a pod uses, in the order of its volumes; a claim that is behind several of them is there as often.
func Uses(pod *corev1.Pod) []Use {
	var uses []Use
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case v.PersistentVolumeClaim != nil:
			uses = append(uses, Use{Claim: v.PersistentVolumeClaim.ClaimName})
		case v.Ephemeral != nil:
			uses = append(uses, Use{Claim: ephemeral.VolumeClaimName(pod, v), Own: true})
		}
	}
	return uses
}

// UsesClaims reports whether a pod uses claims.
func UsesClaims(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true
		}
	}
	return false
}

// Bound reports whether a claim and its volume are bound to each other for good.
func Bound(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted)
}

// waits reports whether a claim is bound only once a pod has a node: then it is the scheduler that finds its volume.
func (v View) waits(claim *corev1.PersistentVolumeClaim) bool {
	class := v.Class(volume.GetPersistentVolumeClaimClass(claim))
	return claim.Spec.VolumeName == "" && class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// Refusal says why a pod can go to no node at all, for the sake of its claims; "" where that depends on the node.
func (v View) Refusal(pod *corev1.Pod) string {
	uses := Uses(pod)
	for _, u := range uses {
		claim := v.Claim(pod.Namespace, u.Claim)
		switch {
		case claim == nil && u.Own:
			return fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", u.Claim)
		case claim == nil:
			return Missing(u.Claim)
		case claim.Status.Phase == corev1.ClaimLost:
			return fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", claim.Name, claim.Spec.VolumeName)
		case claim.DeletionTimestamp != nil:
			return fmt.Sprintf("persistentvolumeclaim %q is being deleted", claim.Name)
		}
		if u.Own {
			if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
				return err.Error()
			}
		}
	}
	for _, u := range uses {
		if claim := v.Claim(pod.Namespace, u.Claim); !Bound(claim) && !v.waits(claim) {
			return "pod has unbound immediate PersistentVolumeClaims"
		}
	}
	return ""
}

// Missing says that there is no claim of a name.
func Missing(claim string) string { return fmt.Sprintf("persistentvolumeclaim %q not found", claim) }
