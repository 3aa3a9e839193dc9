package definition

import (
	"encoding/json"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// rewriteValues writes the defaults, examples and enumerations of all schemas in one way, as Kubernetes does: a definition that is sent
// again with other spaces or another order of keys is the same.
func rewriteValues(d *crd) {
	for i := range d.Spec.Versions {
		if schema := d.Spec.Versions[i].Schema; schema != nil {
			rewriteSchema(schema.OpenAPIV3Schema)
		}
	}
}

func rewriteSchema(s *apiextensionsv1.JSONSchemaProps) {
	if s == nil {
		return
	}
	rewrite(s.Default)
	rewrite(s.Example)
	for i := range s.Enum {
		rewrite(&s.Enum[i])
	}
	if s.Items != nil {
		rewriteSchema(s.Items.Schema)
		rewriteAll(s.Items.JSONSchemas)
	}
	for _, list := range [][]apiextensionsv1.JSONSchemaProps{s.AllOf, s.OneOf, s.AnyOf} {
		rewriteAll(list)
	}
	rewriteSchema(s.Not)
	for _, fields := range []map[string]apiextensionsv1.JSONSchemaProps{s.Properties, s.PatternProperties, s.Definitions} {
		for name, field := range fields {
			rewriteSchema(&field)
			fields[name] = field
		}
	}
	for _, either := range []*apiextensionsv1.JSONSchemaPropsOrBool{s.AdditionalProperties, s.AdditionalItems} {
		if either != nil {
			rewriteSchema(either.Schema)
		}
	}
	for _, either := range s.Dependencies {
		rewriteSchema(either.Schema)
	}
}

func rewriteAll(list []apiextensionsv1.JSONSchemaProps) {
	for i := range list {
		rewriteSchema(&list[i])
	}
}

// rewrite leaves what cannot be read to the validation.
func rewrite(value *apiextensionsv1.JSON) {
	if value == nil || len(value.Raw) == 0 || string(value.Raw) == "null" {
		return
	}
	var read any
	if utiljson.Unmarshal(value.Raw, &read) != nil {
		return
	}
	if written, err := json.Marshal(read); err == nil {
		value.Raw = written
	}
}
