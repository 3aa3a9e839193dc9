package controllers

import (
	"strings"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/services/controllers/internal/policystatus"
)

// TestPolicyStatusOnTheRealAPI has a policy's expressions checked against the schemas that the API publishes.
func TestPolicyStatusOnTheRealAPI(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "policystatus")
	policy := func(name, expression string) {
		create(t, client, policystatus.Policy, &registrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: registrationv1.ValidatingAdmissionPolicySpec{
				ParamKind: &registrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
				MatchConstraints: &registrationv1.MatchResources{ResourceRules: []registrationv1.NamedRuleWithOperations{{RuleWithOperations: registrationv1.RuleWithOperations{
					Operations: []registrationv1.OperationType{registrationv1.Create},
					Rule:       registrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
				}}}},
				Validations: []registrationv1.Validation{{Expression: expression, Reason: ptr.To(metav1.StatusReasonInvalid)}},
			},
		})
	}
	policy("right", "object.spec.replicas > 1 && object.spec.template.spec.containers.all(c, c.image != params.data.image)")
	policy("wrong", "object.spec.replicas > '1'")
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
	await(t, client, policystatus.Policy, "a warning about a wrong policy", status("wrong", func(c *registrationv1.TypeChecking) bool {
		return len(c.ExpressionWarnings) == 1 && c.ExpressionWarnings[0].FieldRef == "spec.validations[0].expression" &&
			strings.Contains(c.ExpressionWarnings[0].Warning, "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'")
	}))
}
