package controllers

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
)

var budgetKind = object.Kind[*policyv1.PodDisruptionBudget]{
	GVK: policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), Resource: "poddisruptionbudgets", Namespaced: true,
	New: func() *policyv1.PodDisruptionBudget { return &policyv1.PodDisruptionBudget{} },
}

// TestDisruptionBudgetOnTheRealAPI evicts the pods of a Deployment as far as its budget goes.
func TestDisruptionBudgetOnTheRealAPI(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "deployment,replicaset,disruption,serviceaccount,rootca")
	kubelet(t, client)
	await(t, client, object.ServiceAccount, "the namespace's account", func(s []*corev1.ServiceAccount) bool { return in(s, "default", "default") })
	await(t, client, object.ConfigMap, "the namespace's root CA", func(s []*corev1.ConfigMap) bool { return in(s, "default", "kube-root-ca.crt") })
	readyNode(t, client, "node-1")
	d := onNode(3)
	d.Namespace = "default"
	d = create(t, client, object.Deployment, d)
	create(t, client, budgetKind, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromString("30%")), Selector: d.Spec.Selector},
	})
	await(t, client, object.Deployment, "3 available replicas", func(list []*appsv1.Deployment) bool { return len(list) == 1 && list[0].Status.AvailableReplicas == 3 })
	settled := func(list []*policyv1.PodDisruptionBudget) bool {
		s := list[0].Status
		return s.ExpectedPods == 3 && s.DesiredHealthy == 2 && s.CurrentHealthy == 3 && s.DisruptionsAllowed == 1
	}
	await(t, client, budgetKind, "one disruption that is allowed", settled)
	pods, _, err := object.For(client, object.Pod).List(t.Context(), "default", metav1.ListOptions{})
	if err != nil || len(pods) != 3 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	evict := func(name string) error {
		return object.For(client, object.Pod).Post(t.Context(), "default", name, "eviction",
			&policyv1.Eviction{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}, &metav1.Status{})
	}
	// Whatever comes first, never more than one goes at a time: the second is refused until the first is replaced.
	if err := evict(pods[0].Name); err != nil {
		t.Fatal(err)
	}
	if err := evict(pods[1].Name); err != nil && !apierrors.IsTooManyRequests(err) {
		t.Errorf("got %v", err)
	}
	await(t, client, object.Pod, "the evicted pod's end", func(list []*corev1.Pod) bool { return !in(list, "default", pods[0].Name) })
	await(t, client, budgetKind, "the budget's recovery", settled)
}
