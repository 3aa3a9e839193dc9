// Package localpath provisions volumes that are folders of a node, for classes of the provisioner howdah.dev/local-path: the provisioner that a
// cluster has without installing one. It makes and deletes the volumes' objects; the folders are the node agents'.
package localpath

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storage "k8s.io/component-helpers/storage/volume"

	"howdah.dev/kit/object"
)

// Asked reports whether a claim waits for a volume of ours.
func Asked(claim *corev1.PersistentVolumeClaim) bool {
	by := claim.Annotations[storage.AnnStorageProvisioner]
	if by == "" {
		by = claim.Annotations[storage.AnnBetaStorageProvisioner]
	}
	return by == object.LocalPathProvisioner && claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil
}

// Volume returns the volume for a claim on the node that the scheduler selected for it, or why there can be none. Its name follows from the claim,
// so there are never two.
func Volume(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node *corev1.Node) (*corev1.PersistentVolume, error) {
	dir, err := settings(class)
	if err != nil {
		return nil, err
	}
	if err := suits(claim); err != nil {
		return nil, err
	}
	host := node.Labels[corev1.LabelHostname]
	if host == "" || len(node.Name) > 63 {
		return nil, fmt.Errorf("node %s has no label %s, or a name too long for one", node.Name, corev1.LabelHostname)
	}
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "pvc-" + string(claim.UID),
			Labels:      map[string]string{object.LocalPathNodeLabel: node.Name},
			Annotations: map[string]string{storage.AnnDynamicallyProvisioned: object.LocalPathProvisioner},
			Finalizers:  []string{object.LocalPathFinalizer},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes: claim.Spec.AccessModes, VolumeMode: claim.Spec.VolumeMode, StorageClassName: class.Name,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}},
			}}}},
		},
	}
	if class.ReclaimPolicy != nil {
		v.Spec.PersistentVolumeReclaimPolicy = *class.ReclaimPolicy
	}
	v.Spec.Local = &corev1.LocalVolumeSource{Path: filepath.Join(dir, v.Name)}
	return v, nil
}

// settings reads a class.
func settings(class *storagev1.StorageClass) (dir string, err error) {
	dir = object.LocalPathDir
	for key, value := range class.Parameters {
		if key != "path" {
			return "", fmt.Errorf("unknown parameter %q of the class", key)
		}
		dir = value
	}
	switch {
	case !filepath.IsAbs(dir) || filepath.Clean(dir) == "/":
		return "", fmt.Errorf("parameter path of the class: %q is no folder's absolute path", dir)
	case len(class.MountOptions) > 0:
		return "", errors.New("folders of a node have no mount options")
	case class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return "", fmt.Errorf("the class must have volumeBindingMode %s: a folder is on the node of the pod", storagev1.VolumeBindingWaitForFirstConsumer)
	}
	return filepath.Clean(dir), nil
}

// suits says why a claim cannot be a folder.
func suits(claim *corev1.PersistentVolumeClaim) error {
	s := &claim.Spec
	switch {
	case s.Selector != nil:
		return errors.New("claim.spec.selector is not supported")
	case s.DataSource != nil || s.DataSourceRef != nil:
		return errors.New("claim.spec.dataSource is not supported")
	case s.VolumeMode != nil && *s.VolumeMode == corev1.PersistentVolumeBlock:
		return errors.New("volumeMode Block is not supported")
	case s.VolumeAttributesClassName != nil && *s.VolumeAttributesClassName != "":
		return errors.New("volumeAttributesClassName is not supported")
	}
	if i := slices.IndexFunc(s.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m != corev1.ReadWriteOnce && m != corev1.ReadWriteOncePod
	}); i >= 0 {
		return fmt.Errorf("access mode %s is not supported: the folder is on one node", s.AccessModes[i])
	}
	return nil
}

// Made reports whether a volume is ours.
func Made(v *corev1.PersistentVolume) bool {
	return v.Annotations[storage.AnnDynamicallyProvisioned] == object.LocalPathProvisioner
}

// Unneeded reports whether a volume is ours to delete.
func Unneeded(v *corev1.PersistentVolume) bool {
	return Made(v) && v.DeletionTimestamp == nil && v.Status.Phase == corev1.VolumeReleased && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// Held reports whether a volume that is deleted waits for its node to remove the folder.
func Held(v *corev1.PersistentVolume) bool {
	return Made(v) && v.DeletionTimestamp != nil && slices.Contains(v.Finalizers, object.LocalPathFinalizer)
}

// Grows reports whether the claim asks for more than its volume says that it has. A folder has what its disk has, so nothing stands in the way.
func Grows(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
	if !Made(v) || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != claim.UID || claim.Status.Phase != corev1.ClaimBound {
		return false
	}
	wanted, told := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	return wanted.Cmp(told) > 0
}
