package rbacpolicy

import rbacv1 "k8s.io/api/rbac/v1"

// components are the roles of what a cluster is made of.
func (p *Policy) components(features map[string]bool) {
	p.clusterRole("system:auth-delegator",
		rule("authentication.k8s.io", "tokenreviews", "create"),
		rule("authorization.k8s.io", "subjectaccessreviews", "create"),
	)
	p.clusterRole("system:heapster",
		rule("core", "events namespaces nodes pods", read),
		rule("extensions", "deployments", read),
	)
	p.clusterRole("system:kube-aggregator",
		rule("core", "endpoints services", read),
	)
	p.clusterRole("system:kube-controller-manager",
		events(),
		rule("coordination.k8s.io", "leases", "create"),
		named(rule("coordination.k8s.io", "leases", "get update"), "kube-controller-manager"),
		rule("core", "secrets serviceaccounts", "create"),
		rule("core", "secrets", "delete"),
		rule("core", "configmaps namespaces secrets serviceaccounts", "get"),
		rule("core", "secrets serviceaccounts", "update"),
		rule("authentication.k8s.io", "tokenreviews", "create"),
		rule("authorization.k8s.io", "subjectaccessreviews", "create"),
		rule("*", "*", "list watch"),
		rule("core", "serviceaccounts/token", "create"),
	)
	p.bind("system:kube-controller-manager", user("system:kube-controller-manager"))
	p.clusterRole("system:kube-dns",
		rule("core", "endpoints services", "list watch"),
	)
	p.bind("system:kube-dns", account("kube-dns"))
	p.clusterRole("system:kube-scheduler",
		events(),
		rule("coordination.k8s.io", "leases", "create"),
		named(rule("coordination.k8s.io", "leases", "get list update watch"), "kube-scheduler"),
		rule("coordination.k8s.io", "leasecandidates", "create delete deletecollection get list patch update watch"),
		rule("core", "nodes", read),
		rule("core", "pods", "delete get list watch"),
		rule("core", "bindings pods/binding", "create"),
		rule("core", "pods/status", "patch update"),
		rule("core", "replicationcontrollers services", read),
		rule("apps extensions", "replicasets", read),
		rule("apps", "statefulsets", read),
		rule("policy", "poddisruptionbudgets", read),
		rule("core", "persistentvolumeclaims persistentvolumes", read),
		rule("authentication.k8s.io", "tokenreviews", "create"),
		rule("authorization.k8s.io", "subjectaccessreviews", "create"),
		rule("storage.k8s.io", "csinodes", read),
		rule("storage.k8s.io", "volumeattachments", read),
		rule("core", "namespaces", read),
		rule("storage.k8s.io", "csidrivers", read),
		rule("storage.k8s.io", "csistoragecapacities", read),
		rule("resource.k8s.io", "deviceclasses", read),
		rule("resource.k8s.io", "resourceclaims", "get list patch update watch"),
		rule("resource.k8s.io", "resourceclaims/status", "get list patch update watch"),
		rule("core", "pods/finalizers", "update"),
		rule("resource.k8s.io", "resourceslices", read),
		rule("resource.k8s.io", "resourceclaims", "create delete"),
		rule("resource.k8s.io", "resourceclaims/binding", "patch update"),
	)
	p.bind("system:kube-scheduler", user("system:kube-scheduler"))
	p.clusterRole("system:kubelet-api-admin",
		rule("core", "nodes", read),
		rule("core", "nodes", "proxy"),
		rule("core", "nodes/log nodes/metrics nodes/proxy nodes/stats", "*"),
		rule("core", "nodes/configz nodes/healthz nodes/pods", "*"),
	)
	p.clusterRole("system:node-bootstrapper",
		rule("certificates.k8s.io", "certificatesigningrequests", "create get list watch"),
	)
	p.clusterRole("system:node-problem-detector",
		rule("core", "nodes", "get"),
		rule("core", "nodes/status", "patch"),
		events(),
	)
	p.clusterRole("system:node-proxier",
		rule("core", "endpoints services", "list watch"),
		rule("core", "nodes", read),
		events(),
		rule("networking.k8s.io", "servicecidrs", "list watch"),
		rule("discovery.k8s.io", "endpointslices", "list watch"),
	)
	p.bind("system:node-proxier", user("system:kube-proxy"))
	p.clusterRole("system:persistent-volume-provisioner",
		rule("core", "persistentvolumes", "create delete get list watch"),
		rule("core", "persistentvolumeclaims", "get list update watch"),
		rule("storage.k8s.io", "storageclasses", read),
		rule("core", "events", "watch"),
		events(),
	)
	p.clusterRole("system:volume-scheduler",
		rule("core", "persistentvolumes", "get list patch update watch"),
		rule("storage.k8s.io", "storageclasses", read),
		rule("core", "persistentvolumeclaims", "get list patch update watch"),
	)
	p.bind("system:volume-scheduler", user("system:kube-scheduler"))
	p.clusterRole("system:node", NodeRules(features)...)
	p.bind("system:node") // bound to nobody: the Node authorizer knows the nodes
}

// NodeRules are what every node may do where these feature gates are on, as far as the Node authorizer does not look closer.
func NodeRules(features map[string]bool) []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		rule("authentication.k8s.io", "tokenreviews", "create"),
		rule("authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews", "create"),
		rule("core", "services", read),
		rule("core", "nodes", "create get list watch"),
		rule("core", "nodes/status", "patch update"),
		rule("core", "nodes", "patch update"),
		events(),
		rule("core", "pods", read),
		rule("core", "pods", "create delete"),
		rule("core", "pods/status", "patch update"),
		rule("core", "pods/eviction", "create"),
		rule("core", "configmaps secrets", read),
		rule("core", "persistentvolumeclaims persistentvolumes", "get"),
		rule("core", "endpoints", "get"),
		rule("certificates.k8s.io", "certificatesigningrequests", "create get list watch"),
		rule("coordination.k8s.io", "leases", "create delete get patch update"),
		rule("storage.k8s.io", "volumeattachments", "get"),
		rule("core", "serviceaccounts/token", "create"),
		rule("core", "persistentvolumeclaims/status", "get patch update"),
		rule("storage.k8s.io", "csidrivers", read),
		rule("storage.k8s.io", "csinodes", "create delete get patch update"),
		rule("node.k8s.io", "runtimeclasses", read),
		rule("resource.k8s.io", "resourceclaims", "get"),
		rule("resource.k8s.io", "resourceslices", "deletecollection"),
		rule("core", "serviceaccounts", "get"),
	}, gatedNodeRules(features)...)
}

// signers are the roles of those who request and approve certificates.
func (p *Policy) signers() {
	p.clusterRole("system:certificates.k8s.io:certificatesigningrequests:nodeclient",
		rule("certificates.k8s.io", "certificatesigningrequests/nodeclient", "create"),
	)
	p.clusterRole("system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
		rule("certificates.k8s.io", "certificatesigningrequests/selfnodeclient", "create"),
	)
	p.clusterRole("system:certificates.k8s.io:kube-apiserver-client-approver",
		named(rule("certificates.k8s.io", "signers", "approve"), "kubernetes.io/kube-apiserver-client"),
	)
	p.clusterRole("system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
		named(rule("certificates.k8s.io", "signers", "approve"), "kubernetes.io/kube-apiserver-client-kubelet"),
	)
	p.clusterRole("system:certificates.k8s.io:kubelet-serving-approver",
		named(rule("certificates.k8s.io", "signers", "approve"), "kubernetes.io/kubelet-serving"),
	)
	p.clusterRole("system:certificates.k8s.io:legacy-unknown-approver",
		named(rule("certificates.k8s.io", "signers", "approve"), "kubernetes.io/legacy-unknown"),
	)
}
