package persistentvolume

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storage "k8s.io/component-helpers/storage/volume"
)

// resizing of a volume says what its file system holds meanwhile.
const annPreResize = "volume.alpha.kubernetes.io/pre-resize-capacity"

// claimed returns the volume as it is once the claim has it, and whether that is another than now. Whoever is not named yet is named by us.
func claimed(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, bool) {
	ours := !storage.IsVolumeBoundToClaim(v, claim)
	if r := v.Spec.ClaimRef; !ours && r.UID == claim.UID {
		return v, false
	}
	v = v.DeepCopy()
	v.Spec.ClaimRef = &corev1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
	}
	if ours {
		metav1.SetMetaDataAnnotation(&v.ObjectMeta, storage.AnnBoundByController, "yes")
	}
	return v, true
}

// Released returns the volume as it is for anybody again, or, where somebody else reserved it, for a claim of that name.
func Released(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	v = v.DeepCopy()
	if !metav1.HasAnnotation(v.ObjectMeta, storage.AnnBoundByController) {
		v.Spec.ClaimRef.UID = ""
		return v
	}
	v.Spec.ClaimRef = nil
	delete(v.Annotations, storage.AnnBoundByController)
	return v
}

// holding returns the claim as it is once it has the volume, and whether that is another than now.
func holding(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, bool) {
	if claim.Spec.VolumeName == v.Name && metav1.HasAnnotation(claim.ObjectMeta, storage.AnnBindCompleted) {
		return claim, false
	}
	claim = claim.DeepCopy()
	if claim.Spec.VolumeName != v.Name {
		claim.Spec.VolumeName = v.Name
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, storage.AnnBoundByController, "yes")
	}
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, storage.AnnBindCompleted, "yes")
	return claim, true
}

// inPhase returns the volume in a phase, and whether that is another than now.
func inPhase(v *corev1.PersistentVolume, phase corev1.PersistentVolumePhase, message string) (*corev1.PersistentVolume, bool) {
	if v.Status.Phase == phase {
		return v, false
	}
	v = v.DeepCopy()
	v.Status.Phase, v.Status.Message = phase, message
	return v, true
}

// told returns the claim with what its status says of its volume, which is nil where it has none, and whether that is another than now. The
// capacity and the class of attributes follow the volume's only when the claim gets it: later they are the business of whoever resizes.
func told(claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase, v *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, bool) {
	s := claim.Status.DeepCopy()
	changed := s.Phase != phase
	s.Phase = phase
	if v == nil {
		changed = changed || s.AccessModes != nil || s.Capacity != nil || s.CurrentVolumeAttributesClassName != nil
		s.AccessModes, s.Capacity, s.CurrentVolumeAttributesClassName = nil, nil, nil
	} else {
		if !slices.Equal(s.AccessModes, v.Spec.AccessModes) {
			s.AccessModes, changed = v.Spec.AccessModes, true
		}
		if claim.Status.Phase != phase {
			s.Capacity = v.Spec.Capacity.DeepCopy()
			if before, err := quantity(v.Annotations[annPreResize]); err == nil {
				s.Capacity[corev1.ResourceStorage] = before
			}
		}
		if claim.Status.Phase == corev1.ClaimPending && phase == corev1.ClaimBound {
			s.CurrentVolumeAttributesClassName = v.Spec.VolumeAttributesClassName
		}
	}
	if !changed {
		return claim, false
	}
	claim = claim.DeepCopy()
	claim.Status = *s
	return claim, true
}
