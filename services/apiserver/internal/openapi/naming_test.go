package openapi

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
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
