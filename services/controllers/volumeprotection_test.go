package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
)

// TestClaimInUseStays deletes a claim that a pod uses: it goes with the pod, and one that nobody uses goes at once.
func TestClaimInUseStays(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "volumeprotection,serviceaccount,rootca")
	await(t, client, object.ServiceAccount, "the namespace's account", func(s []*corev1.ServiceAccount) bool { return in(s, "default", "default") })
	for _, name := range []string{"used", "unused"} {
		c := create(t, client, object.PersistentVolumeClaim, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}})
		if len(c.Finalizers) != 1 || c.Finalizers[0] != "kubernetes.io/pvc-protection" {
			t.Fatalf("finalizers %v", c.Finalizers)
		}
	}
	create(t, client, object.Pod, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{
		NodeName: "node-1", Containers: []corev1.Container{{Name: "c", Image: "i"}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "used"}}}},
	}})
	for _, name := range []string{"used", "unused"} {
		if err := object.For(client, object.PersistentVolumeClaim).Delete(t.Context(), "default", name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	await(t, client, object.PersistentVolumeClaim, "only the used claim", func(list []*corev1.PersistentVolumeClaim) bool {
		return len(list) == 1 && list[0].Name == "used" && list[0].DeletionTimestamp != nil
	})
	now := int64(0)
	if err := object.For(client, object.Pod).Delete(t.Context(), "default", "p", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	await(t, client, object.PersistentVolumeClaim, "no claim", func(list []*corev1.PersistentVolumeClaim) bool { return len(list) == 0 })
}

var classKind = object.Kind[*storagev1.VolumeAttributesClass]{
	GVK: storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass"), Resource: "volumeattributesclasses",
	New: func() *storagev1.VolumeAttributesClass { return &storagev1.VolumeAttributesClass{} },
}

// TestClassInUseStays deletes a class that a claim wants: it goes with the claim.
func TestClassInUseStays(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "volumeprotection")
	c := create(t, client, classKind, &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "gold"}, DriverName: "d.example.com", Parameters: map[string]string{"a": "b"}})
	if len(c.Finalizers) != 1 || c.Finalizers[0] != "kubernetes.io/vac-protection" {
		t.Fatalf("finalizers %v", c.Finalizers)
	}
	create(t, client, object.PersistentVolumeClaim, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeAttributesClassName: &c.Name,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}})
	if err := object.For(client, classKind).Delete(t.Context(), "", "gold", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, classKind, "the class held", func(list []*storagev1.VolumeAttributesClass) bool {
		return len(list) == 1 && list[0].DeletionTimestamp != nil && len(list[0].Finalizers) == 1
	})
	if err := object.For(client, object.PersistentVolumeClaim).Delete(t.Context(), "default", "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, classKind, "no class", func(list []*storagev1.VolumeAttributesClass) bool { return len(list) == 0 })
}
