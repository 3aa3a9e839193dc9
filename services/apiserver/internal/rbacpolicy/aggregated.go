package rbacpolicy

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// aggregated are the roles admin, edit and view, and those that they add up. The sums begin empty: their rules are the aggregation controller's, as
// managed fields tell.
func (p *Policy) aggregated() {
	p.aggregate("view", "edit", viewRules())
	p.aggregate("edit", "admin", editRules())
	p.aggregate("admin", "", adminRules())
}

// aggregate makes a role that is a sum, and which another one above may take up, and the role with its own rules.
func (p *Policy) aggregate(name, above string, rules []rbacv1.PolicyRule) {
	part := p.clusterRole("system:aggregate-to-"+name, rules...)
	part.Labels[aggregatePrefix+name] = "true"
	sum := p.clusterRole(name)
	if above != "" {
		sum.Labels[aggregatePrefix+above] = "true"
	}
	sum.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchLabels: map[string]string{aggregatePrefix + name: "true"}},
	}}
}
