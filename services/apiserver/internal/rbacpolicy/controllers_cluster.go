package rbacpolicy

import rbacv1 "k8s.io/api/rbac/v1"

// clusterControllers are the roles of the controllers that look after nodes, namespaces, and what else a cluster has.
func clusterControllers() map[string][]rbacv1.PolicyRule {
	return map[string][]rbacv1.PolicyRule{
		"certificate-controller": {
			rule("certificates.k8s.io", "certificatesigningrequests", "delete get list watch"),
			rule("certificates.k8s.io", "certificatesigningrequests/approval certificatesigningrequests/status", "update"),
			named(rule("certificates.k8s.io", "signers", "approve"), "kubernetes.io/kube-apiserver-client-kubelet"),
			named(rule("certificates.k8s.io", "signers", "sign"), "kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown"),
			rule("authorization.k8s.io", "subjectaccessreviews", "create"),
			events(),
		},
		"clusterrole-aggregation-controller": {
			rule("rbac.authorization.k8s.io", "clusterroles", "escalate get list patch update watch"),
		},
		"device-taint-eviction-controller": {
			rule("core", "pods", "delete get list watch"),
			rule("core", "pods/status", "patch update"),
			rule("resource.k8s.io", "resourceclaims", read),
			rule("resource.k8s.io", "resourceslices", read),
			rule("resource.k8s.io", "deviceclasses", read),
			events(),
		},
		"generic-garbage-collector": {
			rule("*", "*", "delete get list patch update watch"),
			events(),
		},
		"legacy-service-account-token-cleaner": {
			named(rule("core", "configmaps", "get"), "kube-apiserver-legacy-service-account-token-tracking"),
			rule("core", "secrets", "delete patch"),
		},
		"namespace-controller": {
			rule("core", "namespaces", "delete get list watch"),
			rule("core", "namespaces/finalize namespaces/status", "update"),
			rule("*", "*", "delete deletecollection get list watch"),
		},
		"node-controller": {
			rule("core", "nodes", "delete get list patch update watch"),
			rule("core", "nodes/status", "patch update"),
			rule("core", "pods/status", "patch update"),
			rule("core", "pods", "delete get list watch"),
			events(),
		},
		"pod-garbage-collector": {
			rule("core", "pods", "delete list watch"),
			rule("core", "nodes", read),
			rule("core", "pods/status", "patch"),
		},
		"resourcequota-controller": {
			rule("*", "*", "list watch"),
			rule("core", "resourcequotas/status", "update"),
			events(),
		},
		"root-ca-cert-publisher": {
			rule("core", "configmaps", "create update"),
			events(),
		},
		"service-account-controller": {
			rule("core", "serviceaccounts", "create"),
			events(),
		},
		"ttl-controller": {
			rule("core", "nodes", "list patch update watch"),
			events(),
		},
		"validatingadmissionpolicy-status-controller": {
			rule("admissionregistration.k8s.io", "validatingadmissionpolicies", read),
			rule("admissionregistration.k8s.io", "validatingadmissionpolicies/status", "get patch update"),
			events(),
		},
	}
}
