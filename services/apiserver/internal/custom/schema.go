package custom

import (
	"errors"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// errSchema answers requests for a kind whose schema cannot be used, which its validation should have kept out.
var errSchema = errors.New("the server could not properly serve the CR schema")

// compiled is a version's schema, ready for use.
type compiled struct {
	// structural is nil where the version has no schema.
	structural *structuralschema.Structural
	whole      validation.SchemaValidator
	// status validates the status alone; nil where the schema does not know it.
	status validation.SchemaValidator
	rules  *cel.Validator
	// shape tells quickly that nothing is wrong; nil where there is no schema.
	shape *shape
}

// structuralOf converts a version's schema; all three results may be nil.
func structuralOf(v *apiextensionsv1.CustomResourceDefinitionVersion) (*structuralschema.Structural, *apiextensions.JSONSchemaProps, error) {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return nil, nil, nil
	}
	in := &apiextensions.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, in, nil); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errSchema, err)
	}
	s, err := structuralschema.NewStructural(in.OpenAPIV3Schema)
	if err != nil {
		return nil, in.OpenAPIV3Schema, fmt.Errorf("%w: %w", errSchema, err)
	}
	return s, in.OpenAPIV3Schema, nil
}

func compile(f *family, name string) (*compiled, error) {
	v, err := f.read(name)
	if err != nil {
		return nil, err
	}
	s, props, err := structuralOf(v)
	if err != nil && !f.preserve {
		return nil, err
	}
	if s != nil && !f.preserve {
		// Defaults are shared with what the schema was made of.
		s = s.DeepCopy()
		if err := defaulting.PruneDefaults(s); err != nil {
			return nil, fmt.Errorf("%w: %w", errSchema, err)
		}
	}
	c := &compiled{structural: s}
	if c.whole, _, err = validation.NewSchemaValidator(props); err != nil {
		return nil, fmt.Errorf("%w: %w", errSchema, err)
	}
	if props != nil {
		if status, ok := props.Properties["status"]; ok {
			if c.status, _, err = validation.NewSchemaValidator(&status); err != nil {
				return nil, fmt.Errorf("%w: %w", errSchema, err)
			}
		}
	}
	if s != nil {
		if !f.preserve {
			c.shape = newShape(s, true)
		}
		c.rules = cel.NewValidator(s, true, celconfig.PerCallLimit)
	}
	return c, nil
}
