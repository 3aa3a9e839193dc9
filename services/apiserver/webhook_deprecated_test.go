package apiserver

import (
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// Who writes in one version is not warned of another one, in which a webhook wants to see the object.
func TestWebhookOfADeprecatedVersion(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	f.define(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions:
  - {name: v2, served: true, storage: true, deprecated: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v2beta1, served: true, storage: false, deprecated: true, schema: {openAPIV3Schema: {type: object}}}
`)
	f.configure("validatingwebhookconfigurations", "c", h.hook("a", "/allow", `,"rules":[{"operations":["*"],"apiGroups":["example.com"],"apiVersions":["v2beta1"],"resources":["things"]}]`))
	var header metadata.MD
	if _, err := f.api.Create(f.ctx, &apiv1.CreateRequest{Group: "example.com", Version: "v2", Resource: "things", Namespace: "default",
		Object: []byte(`{"apiVersion":"example.com/v2","kind":"Thing","metadata":{"name":"a"}}`)}, grpc.Header(&header)); err != nil {
		t.Fatal(err)
	}
	if seen := h.requests(); len(seen) != 1 || seen[0].Resource.Version != "v2beta1" {
		t.Errorf("%+v", seen)
	}
	if got := header.Get("warning"); !slices.Equal(got, []string{"example.com/v2 Thing is deprecated"}) {
		t.Errorf("%q", got)
	}
}
