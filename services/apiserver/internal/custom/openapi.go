package custom

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	openapiv2 "k8s.io/apiextensions-apiserver/pkg/controller/openapi/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const metaModel = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// Schema implements registry.Custom. It is made anew each time: it is large, and wanted when documents are.
func (v *version) Schema(openAPI int) *spec.Schema {
	d, err := v.read(v.name)
	if err != nil {
		return nil
	}
	return v.published(d, openAPI)
}

// published is the schema of a version for clients: what they must send, and no rules that only the server can check.
func (v *version) published(d *apiextensionsv1.CustomResourceDefinitionVersion, openAPI int) *spec.Schema {
	s, _, err := structuralOf(d)
	out := &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}
	switch {
	case err != nil || s == nil:
	case openAPI == 2 && (v.preserve || s.XPreserveUnknownFields):
		// kubectl takes what it is told of the fields for all that there are.
	default:
		out = render(s, openAPI)
	}
	out.AddExtension("x-kubernetes-group-version-kind", []any{
		map[string]any{"group": v.group, "version": v.name, "kind": v.names.Kind},
	})
	if len(v.selectable) > 0 {
		var list []any
		for _, path := range v.selectable {
			list = append(list, map[string]any{"fieldPath": path[1:]})
		}
		out.AddExtension("x-kubernetes-selectable-fields", list)
	}
	return out
}

func render(s *structuralschema.Structural, openAPI int) *spec.Schema {
	prefix := "#/components/schemas/"
	if openAPI == 2 {
		s, prefix = openapiv2.ToStructuralOpenAPIV2(s), "#/definitions/"
	}
	out := s.ToKubeOpenAPI()
	r := renderer{reference: prefix + metaModel, old: openAPI == 2}
	r.object(out, "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
		"Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds")
	r.embedded(out)
	return out
}

type renderer struct {
	reference string
	old       bool
}

var metaDescription = metav1.PartialObjectMetadata{}.SwaggerDoc()["metadata"]

// object adds what every object has.
func (r renderer) object(s *spec.Schema, apiVersion, kind string) {
	meta := spec.RefSchema(r.reference).WithDescription(metaDescription)
	if !r.old { // a description may not stand beside a reference
		meta = &spec.Schema{SchemaProps: spec.SchemaProps{
			Description: metaDescription, AllOf: []spec.Schema{*spec.RefSchema(r.reference)},
		}}
	}
	s.SetProperty("metadata", *meta)
	s.SetProperty("apiVersion", *spec.StringProperty().WithDescription(apiVersion))
	s.SetProperty("kind", *spec.StringProperty().WithDescription(kind))
}

// embedded completes the embedded resources in a schema.
func (r renderer) embedded(s *spec.Schema) {
	if s == nil {
		return
	}
	for name, p := range s.Properties {
		r.embedded(&p)
		s.Properties[name] = p
	}
	if s.Items != nil {
		r.embedded(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		r.embedded(s.AdditionalProperties.Schema)
	}
	if r.old { // it knows of no defaults
		s.Default = nil
	} else if either, ok := s.Extensions.GetBool("x-kubernetes-int-or-string"); ok && either && len(s.AnyOf) == 0 && len(s.AllOf) == 0 {
		s.AnyOf = []spec.Schema{*spec.Int64Property(), *spec.StringProperty()}
		s.AnyOf[0].Format = ""
	}
	if open, ok := s.Extensions.GetBool("x-kubernetes-preserve-unknown-fields"); ok && open && r.old {
		return
	}
	if is, ok := s.Extensions.GetBool("x-kubernetes-embedded-resource"); !ok || !is {
		return
	}
	r.object(s, "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
		"kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds")
	for _, name := range []string{"kind", "apiVersion"} {
		required := false
		for _, have := range s.Required {
			required = required || have == name
		}
		if !required {
			s.Required = append(s.Required, name)
		}
	}
}
