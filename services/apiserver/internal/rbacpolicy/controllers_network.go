package rbacpolicy

import rbacv1 "k8s.io/api/rbac/v1"

// networkControllers are the roles of the controllers that lead traffic to pods.
func networkControllers() map[string][]rbacv1.PolicyRule {
	return map[string][]rbacv1.PolicyRule{
		"endpoint-controller": {
			rule("core", "pods services", read),
			rule("core", "endpoints", "create delete get list update watch"),
			rule("core", "endpoints/restricted", "create"),
			events(),
		},
		"endpointslice-controller": {
			rule("core", "nodes pods services", read),
			rule("core", "services/finalizers", "update"),
			rule("discovery.k8s.io", "endpointslices", "create delete get list update watch"),
			events(),
		},
		"endpointslicemirroring-controller": {
			rule("core", "endpoints services", read),
			rule("core", "services/finalizers", "update"),
			rule("core", "endpoints/finalizers", "update"),
			rule("discovery.k8s.io", "endpointslices", "create delete get list update watch"),
			events(),
		},
		"route-controller": {
			rule("core", "nodes", "list watch"),
			rule("core", "nodes/status", "patch"),
			events(),
		},
		"service-cidrs-controller": {
			rule("networking.k8s.io", "servicecidrs", "get list patch update watch"),
			rule("networking.k8s.io", "servicecidrs/finalizers", "patch update"),
			rule("networking.k8s.io", "servicecidrs/status", "patch update"),
			rule("networking.k8s.io", "ipaddresses", read),
			events(),
		},
		"service-controller": {
			rule("core", "services", read),
			rule("core", "services/status", "patch update"),
			rule("core", "nodes", "list watch"),
			events(),
		},
	}
}
