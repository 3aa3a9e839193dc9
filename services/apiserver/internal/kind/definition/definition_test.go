package definition

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// A schema that is not structural is refused, whatever else refers to its fields.
func TestUnstructured(t *testing.T) {
	t.Parallel()
	d := &crd{}
	if err := yaml.UnmarshalStrict([]byte(`
metadata: {name: foos.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: foos, kind: Foo}
  versions:
  - name: v1
    served: true
    storage: true
    selectableFields: [{jsonPath: .spec.a}]
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: string, $ref: x}}}}}}
`), d); err != nil {
		t.Fatal(err)
	}
	k := Kind(time.Now)
	k.Default(d)
	k.PrepareCreate(d)
	errs := k.ValidateCreate(d)
	if len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), "$ref") {
		t.Errorf("%v", errs)
	}
	if len(d.Spec.Versions[0].SelectableFields) != 1 {
		t.Error("the object was changed")
	}
}
