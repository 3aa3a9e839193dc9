package fieldmanager

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"howdah.dev/services/apiserver/internal/registry"
)

// FuzzManagedFields writes and applies objects whose managed fields are what a client made up: no write fails for them, and what is
// recorded afterwards can be decoded.
func FuzzManagedFields(f *testing.F) {
	for _, seed := range []string{
		`[]`, `[{}]`, `null`, `[{"manager":"x","operation":"Bad"}]`, `[{"manager":"x","operation":"Update","apiVersion":"v9","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}}}]`,
		`[{"manager":"x","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"x":{}}}]`, `[{"manager":"x","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":[]}]`,
		`[{"operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:a":{}},"k:{\"a\":1}":{},"v:1":{},"i:5":{}}}]`,
		`[{"manager":"x","operation":"Update","apiVersion":"a/b/c","fieldsType":"FieldsV1"},{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV2","fieldsV1":{"f:data":5}}]`,
	} {
		f.Add([]byte(seed))
	}
	managers := newManagers(f)
	res := managers.table.FindKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	manager, err := managers.For(res, "")
	if err != nil {
		f.Fatal(err)
	}
	object := func(value string, entries []metav1.ManagedFieldsEntry) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", ManagedFields: entries},
			Data:       map[string]string{"a": value},
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var entries []metav1.ManagedFieldsEntry
		if json.Unmarshal(text, &entries) != nil {
			return
		}
		for _, live := range []*corev1.ConfigMap{object("1", nil), object("1", entries)} {
			obj := object("2", entries)
			manager.Update(live, obj, "writer")
			recorded(t, obj)
			configuration := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{"a": "3"},
			}}
			if applied, err := manager.Apply(live, configuration, "applier", true); err == nil && applied != nil {
				recorded(t, applied.(registry.Object))
			}
		}
	})
}

// recorded fails where the fields of an entry are no field set.
func recorded(t *testing.T, obj registry.Object) {
	t.Helper()
	for _, entry := range obj.GetManagedFields() {
		if entry.FieldsV1 == nil || !json.Valid(entry.FieldsV1.Raw) || entry.FieldsType != "FieldsV1" {
			t.Fatalf("%+v", entry)
		}
	}
}
