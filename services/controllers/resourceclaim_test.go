package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
)

// TestClaimsComeFromTemplates has a pod's claim made, and noted in the pod, on the real API.
func TestClaimsComeFromTemplates(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "resourceclaim,serviceaccount")
	claims := object.Kind[*resourcev1.ResourceClaim]{
		GVK: resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"), Resource: "resourceclaims", Namespaced: true,
		New: func() *resourcev1.ResourceClaim { return &resourcev1.ResourceClaim{} },
	}
	templates := object.Kind[*resourcev1.ResourceClaimTemplate]{
		GVK: resourcev1.SchemeGroupVersion.WithKind("ResourceClaimTemplate"), Resource: "resourceclaimtemplates", Namespaced: true,
		New: func() *resourcev1.ResourceClaimTemplate { return &resourcev1.ResourceClaimTemplate{} },
	}
	await(t, client, object.ServiceAccount, "the namespace's account", func(s []*corev1.ServiceAccount) bool { return in(s, "default", "default") })
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gpu"}}
	template.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com"}}}
	create(t, client, templates, template)
	create(t, client, object.Pod, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"},
		Spec: corev1.PodSpec{
			ResourceClaims: []corev1.PodResourceClaim{{Name: "a", ResourceClaimTemplateName: ptr.To("gpu")}, {Name: "b", ResourceClaimTemplateName: ptr.To("gpu")}},
			Containers: []corev1.Container{{
				Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "a"}, {Name: "b"}}},
			}},
		},
	})
	noted := await(t, client, object.Pod, "both claims in the pod's status", func(list []*corev1.Pod) bool {
		return len(list) == 1 && len(list[0].Status.ResourceClaimStatuses) == 2
	})
	for _, s := range noted[0].Status.ResourceClaimStatuses {
		claim, err := object.For(client, claims).Get(t.Context(), "default", *s.ResourceClaimName)
		if err != nil || !metav1.IsControlledBy(claim, noted[0]) || claim.Annotations["resource.kubernetes.io/pod-claim-name"] != s.Name {
			t.Errorf("claim %s: %v, %v", s.Name, claim, err)
		}
	}
}
