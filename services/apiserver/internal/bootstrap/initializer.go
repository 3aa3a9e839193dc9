package bootstrap

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InitializerConfigurations is what admissionregistration.k8s.io/v1alpha1 InitializerConfiguration was; it is served where the admission plugin
// Initializers runs.
func InitializerConfigurations() *apiextensionsv1.CustomResourceDefinition {
	names := apiextensionsv1.CustomResourceDefinitionNames{
		Plural: "initializerconfigurations", Singular: "initializerconfiguration", Kind: "InitializerConfiguration", ListKind: "InitializerConfigurationList",
	}
	text := schemaProps{Type: "string"}
	some := func(description string, rules ...apiextensionsv1.ValidationRule) schemaProps {
		one, most := int64(1), int64(100)
		list := listOf(text)
		list.Description, list.MinItems, list.MaxItems, list.XValidations = description, &one, &most, rules
		return list
	}
	alone := func(what string) apiextensionsv1.ValidationRule {
		return apiextensionsv1.ValidationRule{Rule: "self.size() == 1 || !self.exists(x, x == '*')", Message: "if '*' is present, must not specify other " + what}
	}
	rule := objectOf(map[string]schemaProps{
		"apiGroups":   some("The API groups of the resources; '*' is all of them.", alone("API groups")),
		"apiVersions": some("The API versions of the resources; '*' is all of them.", alone("API versions")),
		"resources": some("The resources, without subresources; '*' is all of them.", alone("resources"),
			apiextensionsv1.ValidationRule{Rule: "!self.exists(x, x.contains('/'))", Message: "must not specify subresources"}),
	}, "apiGroups", "apiVersions", "resources")
	name := text
	longest := int64(253)
	name.Description, name.MaxLength = "What the initializer is called in metadata.initializers, as in podimage.example.com.", &longest
	name.XValidations = []apiextensionsv1.ValidationRule{{
		Rule: `self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}$')`, Message: "should be a domain with at least three segments separated by dots",
	}}
	rules := listOf(rule)
	most := int64(100)
	rules.Description, rules.MaxItems = "What is created with the initializer: what any of the rules covers.", &most
	initializers := listOf(objectOf(map[string]schemaProps{"name": name, "rules": rules}, "name"))
	initializers.Description, initializers.MaxItems = "The initializers, in the order in which they act. Those of several configurations act in the order of the configurations' names.", &most
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "initializerconfigurations.admissionregistration.k8s.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "admissionregistration.k8s.io", Scope: apiextensionsv1.ClusterScoped, Names: names,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schemaProps{
					Type: "object", Description: "InitializerConfiguration describes the configuration of initializers.",
					Properties: map[string]schemaProps{"initializers": initializers},
				}},
			}},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{AcceptedNames: names},
	}
}
