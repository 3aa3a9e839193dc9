package controllers

import (
	"testing"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
)

// TestServersThatAreGoneLeaveStorageVersions takes one API server of two away, and then the other.
func TestServersThatAreGoneLeaveStorageVersions(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "storageversion")
	kind := object.Kind[*apiserverinternalv1alpha1.StorageVersion]{
		GVK: apiserverinternalv1alpha1.SchemeGroupVersion.WithKind("StorageVersion"), Resource: "storageversions",
		New: func() *apiserverinternalv1alpha1.StorageVersion { return &apiserverinternalv1alpha1.StorageVersion{} },
	}
	servers := []string{"one", "two"}
	for _, name := range servers {
		create(t, client, object.Lease, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: map[string]string{"apiserver.kubernetes.io/identity": "kube-apiserver"}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: ptr.To(metav1.NowMicro())},
		})
	}
	sv := create(t, client, kind, &apiserverinternalv1alpha1.StorageVersion{ObjectMeta: metav1.ObjectMeta{Name: "apps.deployments"}})
	for i, version := range []string{"v1", "v2"} {
		sv.Status.StorageVersions = append(sv.Status.StorageVersions, apiserverinternalv1alpha1.ServerStorageVersion{
			APIServerID: servers[i], EncodingVersion: "apps/" + version, DecodableVersions: []string{"apps/" + version},
		})
	}
	sv.Status.Conditions = []apiserverinternalv1alpha1.StorageVersionCondition{{
		Type: apiserverinternalv1alpha1.AllEncodingVersionsEqual, Status: apiserverinternalv1alpha1.ConditionFalse, Reason: "CommonEncodingVersionUnset", Message: "x", LastTransitionTime: metav1.Now(),
	}}
	if _, err := object.For(client, kind).UpdateStatus(t.Context(), sv); err != nil {
		t.Fatal(err)
	}
	leases := object.For(client, object.Lease)
	if err := leases.Delete(t.Context(), "kube-system", "two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, kind, "the first server alone, which agrees with itself", func(list []*apiserverinternalv1alpha1.StorageVersion) bool {
		s := list[0].Status
		return len(s.StorageVersions) == 1 && s.CommonEncodingVersion != nil && *s.CommonEncodingVersion == "apps/v1"
	})
	if err := leases.Delete(t.Context(), "kube-system", "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, kind, "no StorageVersion", func(list []*apiserverinternalv1alpha1.StorageVersion) bool { return len(list) == 0 })
}
