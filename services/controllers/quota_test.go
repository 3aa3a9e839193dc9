package controllers

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
)

var quotaKind = object.Kind[*corev1.ResourceQuota]{
	GVK: corev1.SchemeGroupVersion.WithKind("ResourceQuota"), Resource: "resourcequotas", Namespaced: true,
	New: func() *corev1.ResourceQuota { return &corev1.ResourceQuota{} },
}

// TestQuotaOnTheRealAPI counts what a namespace uses from its quota's birth on, and gives it back when it goes.
func TestQuotaOnTheRealAPI(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "resourcequota,serviceaccount,rootca")
	create(t, client, object.Namespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
	await(t, client, object.ServiceAccount, "the namespace's account", func(s []*corev1.ServiceAccount) bool { return in(s, "team", "default") })
	await(t, client, object.ConfigMap, "the namespace's root CA", func(s []*corev1.ConfigMap) bool { return in(s, "team", "kube-root-ca.crt") })
	pod := func(name, cpu string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
		}}}}
	}
	create(t, client, object.Pod, pod("before", "200m"))
	hard := corev1.ResourceList{}
	for name, q := range map[string]string{"pods": "3", "requests.cpu": "1", "configmaps": "2", "services.nodeports": "1", "count/secrets": "5"} {
		hard[corev1.ResourceName(name)] = resource.MustParse(q)
	}
	create(t, client, quotaKind, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}})
	uses := func(want string) {
		t.Helper()
		await(t, client, quotaKind, want, func(list []*corev1.ResourceQuota) bool {
			if len(list) != 1 {
				return false
			}
			var parts []string
			for _, name := range []corev1.ResourceName{"pods", "requests.cpu", "configmaps", "services.nodeports", "count/secrets"} {
				q, ok := list[0].Status.Used[name]
				if !ok {
					return false
				}
				parts = append(parts, q.String())
			}
			return strings.Join(parts, " ") == want
		})
	}
	uses("1 200m 1 0 0")
	create(t, client, object.Pod, pod("one", "500m"))
	create(t, client, object.ConfigMap, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c"}})
	create(t, client, object.Service, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "s"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
	})
	uses("2 700m 2 1 0")
	_, err := object.For(client, object.Pod).Create(t.Context(), pod("two", "400m"))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: q, requested: requests.cpu=400m, used: requests.cpu=700m, limited: requests.cpu=1") {
		t.Fatalf("got %v", err)
	}
	for _, gone := range []error{
		object.For(client, object.Pod).Delete(t.Context(), "team", "one", metav1.DeleteOptions{}),
		object.For(client, object.ConfigMap).Delete(t.Context(), "team", "c", metav1.DeleteOptions{}),
		object.For(client, object.Service).Delete(t.Context(), "team", "s", metav1.DeleteOptions{}),
	} {
		if gone != nil {
			t.Fatal(gone)
		}
	}
	uses("1 200m 1 0 0")
	// A pod that has ended uses nothing.
	ended, err := object.For(client, object.Pod).Get(t.Context(), "team", "before")
	if err != nil {
		t.Fatal(err)
	}
	ended.Status.Phase = corev1.PodSucceeded
	if _, err := object.For(client, object.Pod).UpdateStatus(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	uses("0 0 1 0 0")
	create(t, client, object.Pod, pod("two", "1"))
	for n := range 3 { // what comes and goes leaves nothing behind
		create(t, client, object.Secret, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprint("s", n)}})
		if err := object.For(client, object.Secret).Delete(t.Context(), "team", fmt.Sprint("s", n), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	uses("1 1 1 0 0")
}
