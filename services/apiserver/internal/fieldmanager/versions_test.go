package fieldmanager

import (
	"slices"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"howdah.dev/services/apiserver/internal/custom"
	"howdah.dev/services/apiserver/internal/openapi"
	"howdah.dev/services/apiserver/internal/registry"
)

// TestVersionsThatAreNotServedKeepTheirOwners writes an object of a custom kind in one version, while another writer's entry is of a version that is
// not served any more, or of one that the definition does not have.
func TestVersionsThatAreNotServedKeepTheirOwners(t *testing.T) {
	t.Parallel()
	managers := newManagers(t)
	d := &apiextensionsv1.CustomResourceDefinition{}
	d.Name, d.UID, d.Generation = "things.example.com", "u", 1
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	schema := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": text, "b": text}},
	}}}
	d.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
			{Name: "v1", Schema: schema}, {Name: "v2", Served: true, Storage: true, Schema: schema},
		},
	}
	d.Status.AcceptedNames = d.Spec.Names
	cfg := custom.Config{Now: time.Now, Meta: openapi.New(managers.table, nil, "1.36").Meta}
	made := custom.New(cfg, d, true, false, func() (*apiextensionsv1.CustomResourceDefinition, error) { return d, nil })
	if len(made.Versions) != 1 {
		t.Fatalf("%d versions are served", len(made.Versions))
	}
	kind := made.Versions[0]
	m, err := managers.For(&registry.Resource{Kind: kind, GVK: kind.GVK}, "")
	if err != nil {
		t.Fatal(err)
	}
	for version, kept := range map[string]bool{"v1": true, "v0": false} {
		live := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v2", "kind": "Thing", "spec": map[string]any{"a": "1", "b": "1"},
			"metadata": map[string]any{"name": "x", "managedFields": []any{map[string]any{
				"manager": "old", "operation": "Apply", "apiVersion": "example.com/" + version, "time": "2024-01-01T00:00:00Z",
				"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:a": map[string]any{}}},
			}}},
		}}
		obj := live.DeepCopy()
		obj.Object["spec"].(map[string]any)["b"] = "2"
		m.Update(live, obj, "new")
		var owners []string
		for _, entry := range obj.GetManagedFields() {
			owners = append(owners, entry.Manager)
		}
		if !slices.Contains(owners, "new") || slices.Contains(owners, "old") != kept {
			t.Errorf("owners of %s: %v", version, owners)
		}
		configuration := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v2", "kind": "Thing", "metadata": map[string]any{"name": "x"}, "spec": map[string]any{"a": "2"},
		}}
		if _, err := m.Apply(live.DeepCopy(), configuration, "third", false); (err != nil) != kept {
			t.Errorf("apply over the fields of %s: %v", version, err)
		}
	}
}
