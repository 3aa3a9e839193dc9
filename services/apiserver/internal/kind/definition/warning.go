package definition

import (
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// warnings names the formats that nothing checks, where they are new.
func (c checker) warnings(d, old *crd) []string {
	var known []string
	if old != nil {
		known = c.formats(old)
	}
	var texts []string
	for _, f := range c.formats(d) {
		if !slices.Contains(known, f) {
			texts = append(texts, fmt.Sprintf("unrecognized format %q", f))
		}
	}
	return texts
}

func (c checker) formats(d *crd) []string {
	in, errs := c.internal(d)
	if errs != nil {
		return nil
	}
	var found []string
	look := func(v *apiextensions.CustomResourceValidation) {
		if v == nil || v.OpenAPIV3Schema == nil {
			return
		}
		validation.SchemaHas(v.OpenAPIV3Schema, func(s *apiextensions.JSONSchemaProps) bool {
			if s.Format != "" {
				one := &spec.Schema{SchemaProps: spec.SchemaProps{Format: s.Format, Type: []string{s.Type}}}
				found = append(found, apiservervalidation.GetUnrecognizedFormats(one, environment.DefaultCompatibilityVersion())...)
			}
			return false
		})
	}
	look(in.Spec.Validation)
	for i := range in.Spec.Versions {
		look(in.Spec.Versions[i].Schema)
	}
	return found
}
