package definition

import (
	"encoding/json"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestValuesAreRewritten(t *testing.T) {
	t.Parallel()
	const text = `{"type":"object","default": {"b": 1, "a":  1.0},"example":[ 1 ],"properties":{"p":{"enum":[ "a", {"y":1,"x":2}, null],"not":{"enum":[ 1e2 ]},
		"items":{"default":{ },"allOf":[{"default":[ ]}]}},"q":{"default":null,"additionalProperties":{"default":"<a>"}},"r":{"additionalProperties":true}}}`
	d := &crd{}
	s := &apiextensionsv1.JSONSchemaProps{}
	if err := json.Unmarshal([]byte(text), s); err != nil {
		t.Fatal(err)
	}
	d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{}, {Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: s}}}
	rewriteValues(d)
	p := s.Properties["p"]
	for want, got := range map[string][]byte{
		`{"a":1,"b":1}`: s.Default.Raw, `[1]`: s.Example.Raw, `{"x":2,"y":1}`: p.Enum[1].Raw, `100`: p.Not.Enum[0].Raw, `{}`: p.Items.Schema.Default.Raw, `[]`: p.Items.Schema.AllOf[0].Default.Raw,
		`"\u003ca\u003e"`: s.Properties["q"].AdditionalProperties.Schema.Default.Raw,
	} {
		if string(got) != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
