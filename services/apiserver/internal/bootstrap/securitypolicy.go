package bootstrap

import (
	"encoding/json"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type schemaProps = apiextensionsv1.JSONSchemaProps

// PodSecurityPolicies is what policy/v1beta1 PodSecurityPolicy was; it is served where the admission plugin PodSecurityPolicy runs.
// The API knows no such definition: a custom kind could not be in the group policy.
func PodSecurityPolicies() *apiextensionsv1.CustomResourceDefinition {
	names := apiextensionsv1.CustomResourceDefinitionNames{
		Plural: "podsecuritypolicies", Singular: "podsecuritypolicy", ShortNames: []string{"psp"}, Kind: "PodSecurityPolicy", ListKind: "PodSecurityPolicyList",
	}
	warning := "policy/v1beta1 PodSecurityPolicy is deprecated in v1.21+, unavailable in v1.25+"
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "podsecuritypolicies.policy"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "policy", Scope: apiextensionsv1.ClusterScoped, Names: names,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1beta1", Served: true, Storage: true, Deprecated: true, DeprecationWarning: &warning,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schemaProps{
					Type: "object", Description: "PodSecurityPolicy governs the ability to make requests that affect the Security Context that will be applied to a pod and container.",
					Properties: map[string]schemaProps{"spec": podSecurityPolicySpec()},
				}},
				AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{
					{Name: "Priv", Type: "string", JSONPath: ".spec.privileged"},
					{Name: "Caps", Type: "string", JSONPath: ".spec.allowedCapabilities"},
					{Name: "Selinux", Type: "string", JSONPath: ".spec.seLinux.rule"},
					{Name: "RunAsUser", Type: "string", JSONPath: ".spec.runAsUser.rule"},
					{Name: "FsGroup", Type: "string", JSONPath: ".spec.fsGroup.rule"},
					{Name: "SupGroup", Type: "string", JSONPath: ".spec.supplementalGroups.rule"},
					{Name: "ReadOnlyRootFs", Type: "string", JSONPath: ".spec.readOnlyRootFilesystem"},
					{Name: "Volumes", Type: "string", JSONPath: ".spec.volumes"},
				},
			}},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{AcceptedNames: names},
	}
}

func podSecurityPolicySpec() schemaProps {
	flag, text := schemaProps{Type: "boolean"}, schemaProps{Type: "string"}
	number := schemaProps{Type: "integer", Format: "int64"}
	ranges := listOf(objectOf(map[string]schemaProps{"min": number, "max": number}, "min", "max"))
	identity := func(rules ...string) schemaProps {
		return objectOf(map[string]schemaProps{"rule": choice(rules...), "ranges": ranges}, "rule")
	}
	selinux := objectOf(map[string]schemaProps{"user": text, "role": text, "type": text, "level": text})
	return objectOf(map[string]schemaProps{
		"privileged": flag, "hostNetwork": flag, "hostPID": flag, "hostIPC": flag, "readOnlyRootFilesystem": defaulted(flag, "false"),
		"defaultAddCapabilities": listOf(text), "requiredDropCapabilities": listOf(text), "allowedCapabilities": listOf(text), "volumes": listOf(text),
		"hostPorts":                       ranges,
		"seLinux":                         objectOf(map[string]schemaProps{"rule": choice("MustRunAs", "RunAsAny"), "seLinuxOptions": selinux}, "rule"),
		"runAsUser":                       identity("MustRunAs", "MustRunAsNonRoot", "RunAsAny"),
		"runAsGroup":                      identity("MustRunAs", "MayRunAs", "RunAsAny"),
		"supplementalGroups":              identity("MustRunAs", "MayRunAs", "RunAsAny"),
		"fsGroup":                         identity("MustRunAs", "MayRunAs", "RunAsAny"),
		"defaultAllowPrivilegeEscalation": flag, "allowPrivilegeEscalation": defaulted(flag, "true"),
		"allowedHostPaths":     listOf(objectOf(map[string]schemaProps{"pathPrefix": text, "readOnly": flag})),
		"allowedFlexVolumes":   listOf(objectOf(map[string]schemaProps{"driver": text}, "driver")),
		"allowedCSIDrivers":    listOf(objectOf(map[string]schemaProps{"name": text}, "name")),
		"allowedUnsafeSysctls": listOf(text), "forbiddenSysctls": listOf(text), "allowedProcMountTypes": listOf(text),
		"runtimeClass": objectOf(map[string]schemaProps{"allowedRuntimeClassNames": listOf(text), "defaultRuntimeClassName": text}, "allowedRuntimeClassNames"),
	}, "seLinux", "runAsUser", "supplementalGroups", "fsGroup")
}

func objectOf(properties map[string]schemaProps, required ...string) schemaProps {
	return schemaProps{Type: "object", Properties: properties, Required: required}
}

func listOf(item schemaProps) schemaProps {
	return schemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}}
}

// choice is one of the texts.
func choice(values ...string) schemaProps {
	s := schemaProps{Type: "string"}
	for _, value := range values {
		raw, _ := json.Marshal(value) // of a string it cannot fail
		s.Enum = append(s.Enum, apiextensionsv1.JSON{Raw: raw})
	}
	return s
}

func defaulted(s schemaProps, value string) schemaProps {
	s.Default = &apiextensionsv1.JSON{Raw: []byte(value)}
	return s
}
