package aggregate

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestResourcesOfAggregatedDocuments(t *testing.T) {
	t.Parallel()
	document := []byte(`{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":"other"},"versions":[{"version":"v1"}]},
		{"metadata":{"name":"g"},"versions":[{"version":"v2"},{"version":"v1","resources":[
			{"resource":"as","singularResource":"a","scope":"Namespaced","verbs":["get"],"shortNames":["s"],"categories":["all"],"responseKind":{"group":"g","version":"v1","kind":"A"},
			 "subresources":[{"subresource":"scale","verbs":["patch"],"responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"}}]},
			{"resource":"bs","scope":"Cluster","verbs":["list"]}]}]}]}`)
	want := &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "g/v1",
		APIResources: []metav1.APIResource{
			{Name: "as", SingularName: "a", Namespaced: true, Group: "g", Version: "v1", Kind: "A", Verbs: metav1.Verbs{"get"}, ShortNames: []string{"s"}, Categories: []string{"all"}},
			{Name: "as/scale", Namespaced: true, Group: "autoscaling", Version: "v1", Kind: "Scale", Verbs: metav1.Verbs{"patch"}},
			{Name: "bs", Verbs: metav1.Verbs{"list"}},
		},
	}
	if got := resourcesOf(document, "g", "v1"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	for _, tt := range []struct{ document, version string }{{string(document), "v3"}, {`{"kind":"APIGroupList"}`, "v1"}, {"<html>", "v1"}, {"", "v1"}} {
		if got := resourcesOf([]byte(tt.document), "g", tt.version); got != nil {
			t.Errorf("%s of %q: %+v", tt.version, tt.document, got)
		}
	}
}
