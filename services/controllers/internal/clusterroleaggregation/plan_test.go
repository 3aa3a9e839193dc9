package clusterroleaggregation

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func rule(resource string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get"}}
}

func part(name, label string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "true"}}, Rules: rules}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	sum := part("sum", "to-sum", rule("stale"))
	sum.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchLabels: map[string]string{"to-sum": "true"}}, {MatchLabels: map[string]string{"to-sum2": "true"}},
	}}
	all := []*rbacv1.ClusterRole{
		part("z", "to-sum", rule("pods"), rule("nodes")), sum, part("b", "to-sum2", rule("pods"), rule("secrets")), part("a", "to-sum", rule("services")), part("other", "x", rule("y")),
	}
	rules, changed, err := plan(sum, all)
	if err != nil || !changed || len(rules) != 4 {
		t.Fatal(rules, changed, err)
	}
	for i, want := range []string{"services", "pods", "nodes", "secrets"} {
		if rules[i].Resources[0] != want {
			t.Errorf("rule %d is for %v, want %s", i, rules[i].Resources, want)
		}
	}
	right := sum.DeepCopy()
	right.Rules = rules
	if _, changed, err := plan(right, all); changed || err != nil {
		t.Errorf("a right role is written again (%v)", err)
	}
	if rules, changed, _ := plan(sum, []*rbacv1.ClusterRole{sum}); !changed || len(rules) != 0 {
		t.Errorf("without parts it has %v", rules)
	}
	if _, changed, _ := plan(all[0], all); changed {
		t.Error("a role that aggregates nothing is written")
	}
	broken := sum.DeepCopy()
	broken.AggregationRule.ClusterRoleSelectors[0].MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Nonsense"}}
	if _, _, err := plan(broken, all); err == nil {
		t.Error("a bad selector")
	}
}
