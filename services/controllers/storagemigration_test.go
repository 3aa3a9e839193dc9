package controllers

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
)

// TestStorageIsMigrated asks for the objects of one resource that is there, and of one that is not: the first is done, the second waits.
func TestStorageIsMigrated(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "storagemigration")
	kind := object.Kind[*storagemigrationv1beta1.StorageVersionMigration]{
		GVK: storagemigrationv1beta1.SchemeGroupVersion.WithKind("StorageVersionMigration"), Resource: "storageversionmigrations",
		New: func() *storagemigrationv1beta1.StorageVersionMigration {
			return &storagemigrationv1beta1.StorageVersionMigration{}
		},
	}
	before := create(t, client, object.ConfigMap, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}, Data: map[string]string{"a": "b"}})
	for name, resource := range map[string]string{"maps": "configmaps", "nothings": "nothings"} {
		create(t, client, kind, &storagemigrationv1beta1.StorageVersionMigration{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagemigrationv1beta1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Resource: resource}},
		})
	}
	is := func(list []*storagemigrationv1beta1.StorageVersionMigration, name, condition string) bool {
		return slices.ContainsFunc(list, func(m *storagemigrationv1beta1.StorageVersionMigration) bool {
			return m.Name == name && meta.IsStatusConditionTrue(m.Status.Conditions, condition)
		})
	}
	await(t, client, kind, "one that succeeds, and one that waits", func(list []*storagemigrationv1beta1.StorageVersionMigration) bool {
		return is(list, "maps", "Succeeded") && is(list, "nothings", "Running")
	})
	after, err := object.For(client, object.ConfigMap).Get(t.Context(), "default", "c")
	if err != nil || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("what is stored as it should be was written anew: %s to %s, %v", before.ResourceVersion, after.ResourceVersion, err)
	}
}
