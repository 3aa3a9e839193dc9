package rbacpolicy

import rbacv1 "k8s.io/api/rbac/v1"

// everybody are the roles of all users.
func (p *Policy) everybody() {
	p.clusterRole("cluster-admin",
		rule("*", "*", "*"),
		urls("*", "*"),
	)
	p.bind("cluster-admin", group("system:masters"))
	p.clusterRole("system:discovery",
		urls("get", "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"),
	)
	p.bind("system:discovery", group("system:authenticated"))
	p.clusterRole("system:public-info-viewer",
		urls("get", "/healthz /livez /readyz /version /version/"),
	)
	p.bind("system:public-info-viewer", group("system:authenticated"), group("system:unauthenticated"))
	p.clusterRole("system:basic-user",
		rule("authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews", "create"),
		rule("authentication.k8s.io", "selfsubjectreviews", "create"),
	)
	p.bind("system:basic-user", group("system:authenticated"))
	p.clusterRole("system:monitoring",
		urls("get", "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz"),
		rule("core", "nodes/metrics", "get"),
	)
	p.bind("system:monitoring", group("system:monitoring"))
	p.clusterRole("system:service-account-issuer-discovery",
		urls("get", "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/"),
	)
	p.bind("system:service-account-issuer-discovery", group("system:serviceaccounts"))
}

// viewRules are what the role view has beyond the roles below it.
func viewRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("core", "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status", read),
		rule("core", "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status", read),
		rule("core", "namespaces", read),
		rule("core events.k8s.io", "events", read),
		rule("discovery.k8s.io", "endpointslices", read),
		rule("apps", "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status", read),
		rule("autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status", read),
		rule("batch", "cronjobs cronjobs/status jobs jobs/status", read),
		rule("extensions", "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale", read),
		rule("policy", "poddisruptionbudgets poddisruptionbudgets/status", read),
		rule("networking.k8s.io", "ingresses ingresses/status networkpolicies", read),
		rule("resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates", read),
	}
}

// editRules are what the role edit has beyond the roles below it.
func editRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy", read),
		rule("core", "serviceaccounts", "impersonate"),
		rule("core", "pods pods/attach pods/exec pods/portforward pods/proxy", write),
		rule("core", "pods/eviction", "create"),
		rule("core", "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy", write),
		rule("core", "serviceaccounts/token", "create"),
		rule("core events.k8s.io", "events", write),
		rule("apps", "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale", write),
		rule("autoscaling", "horizontalpodautoscalers", write),
		rule("batch", "cronjobs jobs", write),
		rule("extensions", "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets replicasets/scale replicationcontrollers/scale", write),
		rule("policy", "poddisruptionbudgets", write),
		rule("networking.k8s.io", "ingresses networkpolicies", write),
		rule("coordination.k8s.io", "leases", "create delete deletecollection get list patch update watch"),
		rule("resource.k8s.io", "resourceclaims resourceclaimtemplates", write),
	}
}

// adminRules are what the role admin has beyond the roles below it.
func adminRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("authorization.k8s.io", "localsubjectaccessreviews", "create"),
		rule("rbac.authorization.k8s.io", "rolebindings roles", "create delete deletecollection get list patch update watch"),
	}
}
