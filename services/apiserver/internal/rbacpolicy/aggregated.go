package rbacpolicy

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// aggregated are the roles admin, edit and view, and those that they add up. What a sum begins with is what the aggregation
// controller, who keeps it, makes of these.
func (p *Policy) aggregated() {
	p.aggregate("view", "edit", viewRules(), viewRules())
	p.aggregate("edit", "admin", editRules(), slices.Concat(editRules(), viewRules()))
	p.aggregate("admin", "", adminRules(), slices.Concat(editRules(), viewRules(), adminRules()))
}

// aggregate makes a role that is a sum, and which another one above may take up, and the role with its own rules.
func (p *Policy) aggregate(name, above string, rules, all []rbacv1.PolicyRule) {
	part := p.clusterRole("system:aggregate-to-"+name, rules...)
	part.Labels[aggregatePrefix+name] = "true"
	sum := p.clusterRole(name, all...)
	if above != "" {
		sum.Labels[aggregatePrefix+above] = "true"
	}
	sum.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchLabels: map[string]string{aggregatePrefix + name: "true"}},
	}}
}
