package bootstrap

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodPresets is the definition of settings.k8s.io/v1alpha1 PodPreset, which exists where the admission plugin PodPreset runs.
func PodPresets() *apiextensionsv1.CustomResourceDefinition {
	yes := true
	open := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &yes}
	named := apiextensionsv1.JSONSchemaProps{
		Type: "object", XPreserveUnknownFields: &yes, Required: []string{"name"},
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": {Type: "string"}},
	}
	list := func(item apiextensionsv1.JSONSchemaProps, text string) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "array", Description: text, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}}
	}
	selector := open
	selector.Description = "The pods that the preset is for, by their labels."
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: "podpresets.settings.k8s.io", Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, kept for those who still use it"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "settings.k8s.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "podpresets", Singular: "podpreset", Kind: "PodPreset", ListKind: "PodPresetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Description: "PodPreset gives pods environment, volumes and mounts when they are created.",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"selector":     selector,
						"env":          list(named, "Environment variables of all containers."),
						"envFrom":      list(open, "Sources of environment variables of all containers."),
						"volumes":      list(named, "Volumes of the pod."),
						"volumeMounts": list(named, "Mounts of all containers."),
					}}},
				}},
			}},
		},
	}
}
