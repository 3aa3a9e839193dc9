package clusterroleaggregation

import (
	"cmp"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// plan returns the rules that an aggregating role should have: those of the roles that its selectors choose, selector by selector
// and role by role in the order of their names, each once. changed is false where it has them.
func plan(role *rbacv1.ClusterRole, all []*rbacv1.ClusterRole) (rules []rbacv1.PolicyRule, changed bool, err error) {
	if role.AggregationRule == nil || role.DeletionTimestamp != nil {
		return nil, false, nil
	}
	all = slices.SortedFunc(slices.Values(all), func(a, b *rbacv1.ClusterRole) int { return cmp.Compare(a.Name, b.Name) })
	rules = []rbacv1.PolicyRule{}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, false, fmt.Errorf("selector %d of ClusterRole %s: %w", i, role.Name, err)
		}
		for _, part := range all {
			if part.Name != role.Name && selector.Matches(labels.Set(part.Labels)) {
				rules = extend(rules, part.Rules)
			}
		}
	}
	return rules, !equality.Semantic.DeepEqual(rules, role.Rules), nil
}

func extend(rules, more []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	for _, rule := range more {
		if !slices.ContainsFunc(rules, func(have rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(have, rule) }) {
			rules = append(rules, rule)
		}
	}
	return rules
}
