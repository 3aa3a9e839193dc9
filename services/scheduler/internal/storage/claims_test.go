package storage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestRefusal(t *testing.T) {
	t.Parallel()
	lost := func(c *corev1.PersistentVolumeClaim) { c.Status.Phase, c.Spec.VolumeName = corev1.ClaimLost, "pv" }
	going := func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} }
	named := func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }
	owned := func(c *corev1.PersistentVolumeClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{UID: "p", Controller: ptr.To(true)}}
	}
	older := func(c *corev1.PersistentVolumeClaim) {
		c.Annotations, c.Spec.StorageClassName = map[string]string{corev1.BetaStorageClassAnnotation: "late"}, nil
	}
	const immediate = "pod has unbound immediate PersistentVolumeClaims"
	tests := []struct {
		name  string
		pod   *corev1.Pod
		claim *corev1.PersistentVolumeClaim
		want  string
	}{
		{"no claims", podWith(), nil, ""},
		{"no claim of that name", podWith("data"), nil, `persistentvolumeclaim "data" not found`},
		{"one of another namespace", podWith("data"), claim("data", "late", "1Gi", func(c *corev1.PersistentVolumeClaim) { c.Namespace = "b" }), `persistentvolumeclaim "data" not found`},
		{"not made yet", podWith("own/data"), nil, `waiting for ephemeral volume controller to create the persistentvolumeclaim "p-data"`},
		{"somebody else's", podWith("own/data"), claim("p-data", "late", "1Gi"), "PVC shop/p-data was not created for pod shop/p (pod is not owner)"},
		{"the pod's own", podWith("own/data"), claim("p-data", "late", "1Gi", owned), ""},
		{"lost", podWith("data"), claim("data", "late", "1Gi", lost), `persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"`},
		{"on its way out", podWith("data"), claim("data", "late", "1Gi", going), `persistentvolumeclaim "data" is being deleted`},
		{"bound", podWith("data"), claim("data", "now", "1Gi", boundTo("pv")), ""},
		{"to be bound at once", podWith("data"), claim("data", "now", "1Gi"), immediate},
		{"of no class", podWith("data"), claim("data", "", "1Gi"), immediate},
		{"of a class that is not there", podWith("data"), claim("data", "gone", "1Gi"), immediate},
		{"bound by its name, which waits for no pod", podWith("data"), claim("data", "late", "1Gi", named), immediate},
		{"to be bound with the pod", podWith("data"), claim("data", "late", "1Gi"), ""},
		{"with its class in the annotation of old", podWith("data"), claim("data", "", "1Gi", older), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := filled()
			if tt.claim != nil {
				c.SetClaim(tt.claim)
			}
			if got := c.View().Refusal(tt.pod); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
