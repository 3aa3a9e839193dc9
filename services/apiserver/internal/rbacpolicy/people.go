package rbacpolicy

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// clusterRoles are those for people: what everybody may, and cluster-admin, admin, edit and view.
func (p *Policy) clusterRoles() {
	p.clusterRole("cluster-admin", rule(list("*"), list("*"), list("*")), urls("*", "*"))
	p.bind("cluster-admin", group("system:masters"))

	p.clusterRole("system:discovery", urls("get", "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version", "/version/"))
	p.bind("system:discovery", group("system:authenticated"))
	p.clusterRole("system:public-info-viewer", urls("get", "/healthz", "/livez", "/readyz", "/version", "/version/"))
	p.bind("system:public-info-viewer", group("system:authenticated"), group("system:unauthenticated"))
	p.clusterRole("system:basic-user",
		rule(list("authorization.k8s.io"), list("selfsubjectaccessreviews", "selfsubjectrulesreviews"), list("create")),
		rule(list("authentication.k8s.io"), list("selfsubjectreviews"), list("create")))
	p.bind("system:basic-user", group("system:authenticated"))
	p.clusterRole("system:monitoring", urls("get", "/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/metrics/slis", "/readyz", "/readyz/*"))
	p.bind("system:monitoring", group("system:monitoring"))
	p.clusterRole("system:service-account-issuer-discovery", urls("get", "/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks", "/openid/v1/jwks/"))
	p.bind("system:service-account-issuer-discovery", group("system:serviceaccounts"))

	p.aggregate("view", viewRules(), "view")
	p.aggregate("edit", editRules(), "edit")
	p.aggregate("admin", adminRules(), "admin")
}

// aggregate makes the role that adds up to the named one, and the named one, whose stored rules the aggregation
// controller keeps: what it begins with is all that it would be given.
func (p *Policy) aggregate(name string, rules []rbacv1.PolicyRule, label string) {
	part := p.clusterRole("system:aggregate-to-"+name, rules...)
	part.Labels[aggregatePrefix+label] = "true"
	sum := p.clusterRole(name)
	selectors := []string{aggregatePrefix + name}
	switch name {
	case "view":
		sum.Labels[aggregatePrefix+"edit"] = "true"
		sum.Rules = viewRules()
	case "edit":
		sum.Labels[aggregatePrefix+"admin"] = "true"
		sum.Rules = append(editRules(), viewRules()...)
	case "admin":
		sum.Rules = append(append(adminRules(), editRules()...), viewRules()...)
	}
	sum.AggregationRule = &rbacv1.AggregationRule{}
	for _, s := range selectors {
		sum.AggregationRule.ClusterRoleSelectors = append(sum.AggregationRule.ClusterRoleSelectors, metav1.LabelSelector{MatchLabels: map[string]string{s: "true"}})
	}
}

func viewRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(list(""), list("configmaps", "endpoints", "persistentvolumeclaims", "persistentvolumeclaims/status", "pods", "replicationcontrollers",
			"replicationcontrollers/scale", "serviceaccounts", "services", "services/status"), reading()),
		rule(list(""), list("bindings", "events", "limitranges", "namespaces/status", "pods/log", "pods/status", "replicationcontrollers/status",
			"resourcequotas", "resourcequotas/status"), reading()),
		rule(list(""), list("namespaces"), reading()),
		rule(list("discovery.k8s.io"), list("endpointslices"), reading()),
		rule(list("apps"), list("controllerrevisions", "daemonsets", "daemonsets/status", "deployments", "deployments/scale", "deployments/status",
			"replicasets", "replicasets/scale", "replicasets/status", "statefulsets", "statefulsets/scale", "statefulsets/status"), reading()),
		rule(list("autoscaling"), list("horizontalpodautoscalers", "horizontalpodautoscalers/status"), reading()),
		rule(list("batch"), list("cronjobs", "cronjobs/status", "jobs", "jobs/status"), reading()),
		rule(list("extensions"), list("daemonsets", "daemonsets/status", "deployments", "deployments/scale", "deployments/status", "ingresses",
			"ingresses/status", "networkpolicies", "replicasets", "replicasets/scale", "replicasets/status", "replicationcontrollers/scale"), reading()),
		rule(list("policy"), list("poddisruptionbudgets", "poddisruptionbudgets/status"), reading()),
		rule(list("networking.k8s.io"), list("ingresses", "ingresses/status", "networkpolicies"), reading()),
		rule(list("resource.k8s.io"), list("resourceclaims", "resourceclaims/status", "resourceclaimtemplates"), reading()),
	}
}

func editRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(list(""), list("pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"), reading()),
		rule(list(""), list("serviceaccounts"), list("impersonate")),
		rule(list(""), list("pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"), writing()),
		rule(list(""), list("pods/eviction"), list("create")),
		rule(list(""), list("configmaps", "events", "persistentvolumeclaims", "replicationcontrollers", "replicationcontrollers/scale", "secrets",
			"serviceaccounts", "services", "services/proxy"), writing()),
		rule(list(""), list("serviceaccounts/token"), list("create")),
		rule(list("apps"), list("daemonsets", "deployments", "deployments/rollback", "deployments/scale", "replicasets", "replicasets/scale",
			"statefulsets", "statefulsets/scale"), writing()),
		rule(list("autoscaling"), list("horizontalpodautoscalers"), writing()),
		rule(list("batch"), list("cronjobs", "jobs"), writing()),
		rule(list("extensions"), list("daemonsets", "deployments", "deployments/rollback", "deployments/scale", "ingresses", "networkpolicies",
			"replicasets", "replicasets/scale", "replicationcontrollers/scale"), writing()),
		rule(list("policy"), list("poddisruptionbudgets"), writing()),
		rule(list("networking.k8s.io"), list("ingresses", "networkpolicies"), writing()),
		rule(list("coordination.k8s.io"), list("leases"), append(writing(), reading()...)),
		rule(list("resource.k8s.io"), list("resourceclaims", "resourceclaimtemplates"), writing()),
	}
}

func adminRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(list("authorization.k8s.io"), list("localsubjectaccessreviews"), list("create")),
		rule(list(rbacv1.GroupName), list("rolebindings", "roles"), append(writing(), reading()...)),
	}
}
