package openapi

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

func TestOperationID(t *testing.T) {
	t.Parallel()
	gv := schema.GroupVersion{Group: "db.example.com", Version: "v1"}
	for rest, want := range map[string]string{
		"NamespacedDatabase":       "listDbExampleComV1NamespacedDatabase",
		"Namespaceddatabase":       "listDbExampleComV1Namespaceddatabase",
		"databaseForAllNamespaces": "listDbExampleComV1DatabaseForAllNamespaces", // a kind that begins in lower case
	} {
		if got := operationID("list", gv, rest); got != want {
			t.Errorf("%s: %s, not %s", rest, got, want)
		}
	}
}

// No custom kind takes the name of a model that is there.
func TestNamesOfCustomKinds(t *testing.T) {
	t.Parallel()
	m := &models{v2: map[string]spec.Schema{"io.k8s.pkg.v1.Taken": {}, "io.k8s.pkg.v1.Twice": {}, "io.k8s.pkg.v1.Twice_v2": {}}}
	for kind, want := range map[string]string{"Free": "io.k8s.pkg.v1.Free", "Taken": "io.k8s.pkg.v1.Taken_v2", "Twice": "io.k8s.pkg.v1.Twice_v3"} {
		if got := m.free(customName(schema.GroupVersionKind{Group: "pkg.k8s.io", Version: "v1", Kind: kind})); got != want {
			t.Errorf("%s is called %s", kind, got)
		}
	}
}
