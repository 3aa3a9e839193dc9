package storage

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const inlineForbidden = "may not be specified in the context of inline volumes"

// inlineSpec checks the volume that is part of an attachment: a migrated volume of a pod, which nothing but its source and mode describe.
func inlineSpec(s *corev1.PersistentVolumeSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.ClaimRef != nil {
		errs = append(errs, field.Forbidden(path.Child("claimRef"), inlineForbidden))
	}
	if len(s.Capacity) > 0 {
		errs = append(errs, field.Forbidden(path.Child("capacity"), inlineForbidden))
	}
	if s.CSI == nil {
		errs = append(errs, field.Required(path.Child("csi"), "has to be specified in the context of inline volumes"))
	}
	source := &corev1.PersistentVolumeSpec{PersistentVolumeSource: s.PersistentVolumeSource, AccessModes: s.AccessModes}
	errs = append(errs, volumeSpec(source, true, path)...)
	if p := s.PersistentVolumeReclaimPolicy; p != "" && p != corev1.PersistentVolumeReclaimRetain {
		errs = append(errs, field.Forbidden(path.Child("persistentVolumeReclaimPolicy"), "may only be Retain in the context of inline volumes"))
	}
	if s.NodeAffinity != nil {
		errs = append(errs, field.Forbidden(path.Child("nodeAffinity"), inlineForbidden))
	}
	if s.StorageClassName != "" {
		errs = append(errs, field.Forbidden(path.Child("storageClassName"), inlineForbidden))
	}
	if s.VolumeMode != nil && *s.VolumeMode != corev1.PersistentVolumeFilesystem {
		errs = append(errs, field.Forbidden(path.Child("volumeMode"), "may not specify volumeMode other than Filesystem in the context of inline volumes"))
	}
	return errs
}
