package custom

import (
	"fmt"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"howdah.dev/services/apiserver/internal/plain"
)

// BenchmarkColdRead answers a stored object of 2 kB, as a list does with each that nobody has read before: without decoding it, and with.
func BenchmarkColdRead(b *testing.B) {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	item := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"name": text, "image": text, "pull": {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"Always"`)}}, "port": {Type: "integer"}}}
	d := definition(func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Versions = d.Spec.Versions[:1]
		d.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"items": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}}}},
		}}
	})
	_, versions := kinds(b, Config{}, d)
	v := versions["v1"].Custom.(*version)
	var items, owned []any
	for n := range 12 {
		items = append(items, map[string]any{"name": fmt.Sprint("item-", n), "image": "registry.example.com/a/b:1.2.3", "pull": "Always", "port": int64(8000 + n)})
		owned = append(owned, map[string]any{"f:image": map[string]any{}, "f:name": map[string]any{}, "f:port": map[string]any{}})
	}
	stored, err := v.Encode(b.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{
		"name": "a", "namespace": "default", "uid": "0f0d5d4f-9d0b-4ac0-b4a0-c5f0e5d0a6f1", "creationTimestamp": "2026-01-02T03:04:05Z", "generation": int64(1), "managedFields": owned,
	}, "spec": map[string]any{"items": items}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("answered", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(stored)))
		for b.Loop() {
			if _, ok := v.Answer(nil, stored, "42"); !ok {
				b.Fatal("it has to be decoded")
			}
		}
	})
	b.Run("decoded", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(stored)))
		for b.Loop() {
			objects, errs := v.Decode(b.Context(), [][]byte{stored})
			if errs[0] != nil {
				b.Fatal(errs[0])
			}
			objects[0].SetResourceVersion("42")
			if _, ok := plain.Append(nil, objects[0].(*unstructured.Unstructured).Object, true); !ok {
				b.Fatal("it cannot be encoded")
			}
		}
	})
}
