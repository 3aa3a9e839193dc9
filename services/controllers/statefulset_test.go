package controllers

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
)

// TestStatefulSetOnTheRealAPI is the life of a set with claims on the real API: made in order, rolled out, undone, and gone with its claims.
func TestStatefulSetOnTheRealAPI(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "")
	kubelet(t, client)
	readyNode(t, client, "node-1")
	await(t, client, object.ServiceAccount, "the namespace's account", func(s []*corev1.ServiceAccount) bool { return in(s, "default", "default") })
	labels := map[string]string{"app": "web"}
	replicas := int32(3)
	set := create(t, client, object.StatefulSet, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: "web", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}},
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType, WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
			},
		},
	})
	at := func(n int32, image string) func([]*appsv1.StatefulSet) bool {
		return func(sets []*appsv1.StatefulSet) bool {
			s := sets[0]
			return s.Spec.Template.Spec.Containers[0].Image == image && s.Status.ObservedGeneration == s.Generation && s.Status.Replicas == n &&
				s.Status.AvailableReplicas == n && s.Status.UpdatedReplicas == n && s.Status.CurrentRevision == s.Status.UpdateRevision
		}
	}
	first := await(t, client, object.StatefulSet, "3 replicas", at(3, "web:1"))[0].Status.CurrentRevision
	sets := object.For(client, object.StatefulSet)
	patch := func(kind types.PatchType, patch string) {
		t.Helper()
		if _, err := sets.Patch(t.Context(), "default", "web", kind, []byte(patch), ""); err != nil {
			t.Fatal(err)
		}
	}
	patch(types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}`)
	await(t, client, object.StatefulSet, "3 newer replicas", at(3, "web:2"))
	r, err := object.For(client, object.ControllerRevision).Get(t.Context(), "default", first)
	if err != nil {
		t.Fatal(err)
	}
	patch(types.StrategicMergePatchType, string(r.Data.Raw))
	if got := await(t, client, object.StatefulSet, "the first template again", at(3, "web:1"))[0]; got.Status.CurrentRevision != first || got.Generation != 3 {
		t.Errorf("revision %s, generation %d, want %s and 3", got.Status.CurrentRevision, got.Generation, first)
	}

	patch(types.MergePatchType, `{"spec":{"replicas":1}}`)
	await(t, client, object.StatefulSet, "1 replica", at(1, "web:1"))
	await(t, client, object.PersistentVolumeClaim, "1 claim", func(c []*corev1.PersistentVolumeClaim) bool { return len(c) == 1 && c[0].Name == "data-web-0" })
	p, err := object.For(client, object.Pod).Get(t.Context(), "default", "web-0")
	if err != nil {
		t.Fatal(err)
	}
	if p.Spec.Hostname != "web-0" || p.Spec.Subdomain != "web" || !metav1.IsControlledBy(p, set) {
		t.Errorf("pod %+v", p)
	}

	if err := sets.Delete(t.Context(), "default", "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, object.Pod, "the end of the pods", func(p []*corev1.Pod) bool { return len(p) == 0 })
	await(t, client, object.PersistentVolumeClaim, "the end of the claims", func(c []*corev1.PersistentVolumeClaim) bool { return len(c) == 0 })
	await(t, client, object.ControllerRevision, "the end of the history", func(r []*appsv1.ControllerRevision) bool { return len(r) == 0 })
}
