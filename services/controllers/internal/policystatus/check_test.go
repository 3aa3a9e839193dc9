package policystatus

import (
	"strings"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// fakeKinds serves Deployments of apps/v1, and ConfigMaps without a schema.
type fakeKinds struct{}

func (fakeKinds) KindOf(gvr schema.GroupVersionResource) (schema.GroupVersionKind, bool) {
	switch gvr.Resource {
	case "deployments":
		return gvr.GroupVersion().WithKind("Deployment"), true
	case "configmaps":
		return gvr.GroupVersion().WithKind("ConfigMap"), true
	}
	return schema.GroupVersionKind{}, false
}

func (fakeKinds) Schema(gvk schema.GroupVersionKind) *spec.Schema {
	if gvk.Kind != "Deployment" {
		return nil
	}
	object := func(properties map[string]spec.Schema) spec.Schema {
		return spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: properties}}
	}
	s := object(map[string]spec.Schema{
		"spec": object(map[string]spec.Schema{"replicas": *spec.Int32Property(), "paused": *spec.BoolProperty()}),
	})
	return &s
}

func policy(resources []string, variable, expression, message string) *registrationv1.ValidatingAdmissionPolicy {
	p := &registrationv1.ValidatingAdmissionPolicy{Spec: registrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &registrationv1.MatchResources{ResourceRules: []registrationv1.NamedRuleWithOperations{{
			RuleWithOperations: registrationv1.RuleWithOperations{Rule: registrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: resources}},
		}}},
		Validations: []registrationv1.Validation{{Expression: expression, MessageExpression: message}},
	}}
	if variable != "" {
		p.Spec.Variables = []registrationv1.Variable{{Name: "v", Expression: variable}}
	}
	return p
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy *registrationv1.ValidatingAdmissionPolicy
		want   map[string]string // by field, a part of the warning
	}{
		"right":          {policy([]string{"deployments"}, "", "object.spec.replicas > 1 && !oldObject.spec.paused && request.namespace != ''", "string(object.spec.replicas)"), nil},
		"wrong type":     {policy([]string{"deployments"}, "", "object.spec.replicas > '1'", ""), map[string]string{"spec.validations[0].expression": "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'"}},
		"no such field":  {policy([]string{"deployments"}, "", "object.spec.replica > 1", "object.metadata.nme"), map[string]string{"spec.validations[0].expression": "undefined field 'replica'", "spec.validations[0].messageExpression": "undefined field"}},
		"variable":       {policy([]string{"deployments"}, "object.spec.replicas", "variables.v == 'x'", ""), map[string]string{"spec.validations[0].expression": "found no matching overload for '_==_' applied to '(int, string)'"}},
		"authorizer":     {policy([]string{"deployments"}, "", "authorizer.group('').resource('pods').check('get').allowed()", ""), nil},
		"without schema": {policy([]string{"configmaps"}, "", "object.anything > 1", ""), nil},
		"not served":     {policy([]string{"moons"}, "", "object.anything > 1", ""), nil},
		"everything":     {policy([]string{"*"}, "", "object.anything > 1", ""), nil},
		"a subresource":  {policy([]string{"deployments/scale"}, "", "object.anything > 1", ""), nil},
	} {
		got := map[string]string{}
		for _, w := range Check(test.policy, fakeKinds{}) {
			got[w.FieldRef] = w.Warning
		}
		if len(got) != len(test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
		for ref, part := range test.want {
			if !strings.Contains(got[ref], part) {
				t.Errorf("%s: %s: %q, want %q", name, ref, got[ref], part)
			}
		}
	}
}
