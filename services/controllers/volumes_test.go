package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
)

// TestClaimGetsAVolume binds a claim to the smaller of two volumes, lets it go and sees the volume kept for whoever looks at it; all against the
// API as it is, with its checks of what may change.
func TestClaimGetsAVolume(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "persistentvolume,volumeprotection")
	for name, size := range map[string]string{"large": "5Gi", "small": "2Gi"} {
		create(t, client, object.PersistentVolume, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: "by-hand", PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv/" + name}},
		}})
	}
	await(t, client, object.PersistentVolume, "available", func(list []*corev1.PersistentVolume) bool {
		return len(list) == 2 && list[0].Status.Phase == corev1.VolumeAvailable && list[1].Status.Phase == corev1.VolumeAvailable && list[0].Status.LastPhaseTransitionTime != nil
	})
	create(t, client, object.PersistentVolumeClaim, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("by-hand"),
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}})
	await(t, client, object.PersistentVolumeClaim, "bound to the smaller", func(list []*corev1.PersistentVolumeClaim) bool {
		if len(list) != 1 || list[0].Status.Phase != corev1.ClaimBound {
			return false
		}
		capacity := list[0].Status.Capacity[corev1.ResourceStorage]
		return list[0].Spec.VolumeName == "small" && capacity.String() == "2Gi"
	})
	phases := func(small, large corev1.PersistentVolumePhase) func([]*corev1.PersistentVolume) bool {
		return func(list []*corev1.PersistentVolume) bool {
			return len(list) == 2 && list[0].Name == "large" && list[0].Status.Phase == large && list[1].Status.Phase == small
		}
	}
	await(t, client, object.PersistentVolume, "one bound", phases(corev1.VolumeBound, corev1.VolumeAvailable))
	if err := object.For(client, object.PersistentVolumeClaim).Delete(t.Context(), "default", "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, object.PersistentVolume, "released", phases(corev1.VolumeReleased, corev1.VolumeAvailable))
}
