package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/podgroup"
)

// TestGroupOfPodsStays deletes a group that a pod is in: it goes with the pod, and an empty one goes at once.
func TestGroupOfPodsStays(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "podgroup,serviceaccount,rootca")
	await(t, client, object.ServiceAccount, "the namespace's account", func(s []*corev1.ServiceAccount) bool { return in(s, "default", "default") })
	for _, name := range []string{"used", "unused"} {
		g := create(t, client, podgroup.Kind, &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: schedulingv1alpha2.PodGroupSpec{
			SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{Basic: &schedulingv1alpha2.BasicSchedulingPolicy{}},
		}})
		if len(g.Finalizers) != 1 || g.Finalizers[0] != podgroup.Finalizer {
			t.Fatalf("finalizers %v", g.Finalizers)
		}
	}
	used := "used"
	create(t, client, object.Pod, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i"}}, SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: &used},
	}})
	for _, name := range []string{"used", "unused"} {
		if err := object.For(client, podgroup.Kind).Delete(t.Context(), "default", name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	await(t, client, podgroup.Kind, "only the used group", func(list []*schedulingv1alpha2.PodGroup) bool {
		return len(list) == 1 && list[0].Name == "used" && list[0].DeletionTimestamp != nil
	})
	now := int64(0)
	if err := object.For(client, object.Pod).Delete(t.Context(), "default", "p", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	await(t, client, podgroup.Kind, "no group", func(list []*schedulingv1alpha2.PodGroup) bool { return len(list) == 0 })
}
