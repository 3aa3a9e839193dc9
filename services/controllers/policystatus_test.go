package controllers

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/policystatus"
)

var definitionKind = object.Kind[*apiextensionsv1.CustomResourceDefinition]{
	GVK: apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), Resource: "customresourcedefinitions",
	New: func() *apiextensionsv1.CustomResourceDefinition { return &apiextensionsv1.CustomResourceDefinition{} },
}

// crontabs is a definition whose spec has a number of replicas.
func crontabs() *apiextensionsv1.CustomResourceDefinition {
	properties := func(p map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: p}
	}
	root := properties(map[string]apiextensionsv1.JSONSchemaProps{"spec": properties(map[string]apiextensionsv1.JSONSchemaProps{"replicas": {Type: "integer"}})})
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "crontabs.stable.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "stable.example.com", Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "crontabs", Kind: "CronTab"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root}}},
		},
	}
}

// TestPolicyStatusOnTheRealAPI has a policy's expressions checked against the schemas that the API publishes.
func TestPolicyStatusOnTheRealAPI(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "policystatus")
	create(t, client, definitionKind, crontabs())
	// Its metadata can be listed as soon as it is served.
	served := object.Metadata(schema.GroupVersionKind{Group: "stable.example.com", Version: "v1", Kind: "CronTab"}, "crontabs", true)
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, _, err := object.For(client, served).List(ctx, "", metav1.ListOptions{})
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("custom resources are not served: %v", err)
	}
	policy := func(name, group, resource, expression string) {
		create(t, client, policystatus.Policy, &registrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: registrationv1.ValidatingAdmissionPolicySpec{
				ParamKind: &registrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
				MatchConstraints: &registrationv1.MatchResources{ResourceRules: []registrationv1.NamedRuleWithOperations{{RuleWithOperations: registrationv1.RuleWithOperations{
					Operations: []registrationv1.OperationType{registrationv1.Create},
					Rule:       registrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}},
				}}}},
				Validations: []registrationv1.Validation{{Expression: expression, Reason: ptr.To(metav1.StatusReasonInvalid)}},
			},
		})
	}
	policy("right", "apps", "deployments", "object.spec.replicas > 1 && object.spec.template.spec.containers.all(c, c.image != params.data.image)")
	policy("wrong", "apps", "deployments", "object.spec.replicas > '1'")
	policy("custom", "stable.example.com", "crontabs", "object.spec.replicas > '1' && object.metadata.name != ''")
	status := func(name string, done func(*registrationv1.TypeChecking) bool) func([]*registrationv1.ValidatingAdmissionPolicy) bool {
		return func(list []*registrationv1.ValidatingAdmissionPolicy) bool {
			for _, p := range list {
				if p.Name == name {
					return p.Status.TypeChecking != nil && p.Status.ObservedGeneration == p.Generation && done(p.Status.TypeChecking)
				}
			}
			return false
		}
	}
	await(t, client, policystatus.Policy, "a right policy without warnings", status("right", func(c *registrationv1.TypeChecking) bool { return len(c.ExpressionWarnings) == 0 }))
	await(t, client, policystatus.Policy, "the status applied under Kubernetes' name", func(list []*registrationv1.ValidatingAdmissionPolicy) bool {
		return slices.ContainsFunc(list, func(p *registrationv1.ValidatingAdmissionPolicy) bool {
			return p.Name == "right" && slices.ContainsFunc(p.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
				return f.Manager == "validatingadmissionpolicy-status" && f.Operation == metav1.ManagedFieldsOperationApply && f.Subresource == "status"
			})
		})
	})
	await(t, client, policystatus.Policy, "a warning about a wrong policy", status("wrong", func(c *registrationv1.TypeChecking) bool {
		return len(c.ExpressionWarnings) == 1 && c.ExpressionWarnings[0].FieldRef == "spec.validations[0].expression" &&
			strings.Contains(c.ExpressionWarnings[0].Warning, "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'")
	}))
	await(t, client, policystatus.Policy, "a warning about a custom resource", status("custom", func(c *registrationv1.TypeChecking) bool {
		return len(c.ExpressionWarnings) == 1 && strings.Contains(c.ExpressionWarnings[0].Warning, "stable.example.com/v1, Kind=CronTab: ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'")
	}))
}
