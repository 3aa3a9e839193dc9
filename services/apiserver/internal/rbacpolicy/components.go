package rbacpolicy

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func events() rbacv1.PolicyRule {
	return rule(list("", "events.k8s.io"), list("events"), list("create", "patch", "update"))
}

// components are the roles of what a cluster is made of.
func (p *Policy) components() {
	core, storage := list(""), list("storage.k8s.io")
	p.clusterRole("system:auth-delegator",
		rule(list("authentication.k8s.io"), list("tokenreviews"), list("create")),
		rule(list("authorization.k8s.io"), list("subjectaccessreviews"), list("create")))
	p.clusterRole("system:heapster", rule(core, list("events", "namespaces", "nodes", "pods"), reading()), rule(list("extensions"), list("deployments"), reading()))
	p.clusterRole("system:node-problem-detector", rule(core, list("nodes"), list("get")), rule(core, list("nodes/status"), list("patch")), events())
	p.clusterRole("system:node-bootstrapper", rule(list("certificates.k8s.io"), list("certificatesigningrequests"), append(list("create"), reading()...)))
	p.clusterRole("system:persistent-volume-provisioner",
		rule(core, list("persistentvolumes"), append(list("create", "delete"), reading()...)),
		rule(core, list("persistentvolumeclaims"), append(list("update"), reading()...)),
		rule(storage, list("storageclasses"), reading()), rule(core, list("events"), list("watch")), events())
	p.clusterRole("system:kubelet-api-admin",
		rule(core, list("nodes"), list("proxy")), rule(core, list("nodes"), reading()),
		rule(core, list("nodes/configz", "nodes/healthz", "nodes/log", "nodes/metrics", "nodes/pods", "nodes/proxy", "nodes/spec", "nodes/stats"), list("*")))
	p.clusterRole("system:node", NodeRules()...)
	p.bind("system:node") // bound to nobody: the Node authorizer knows the nodes
	p.clusterRole("system:node-proxier",
		rule(core, list("endpoints", "services"), list("list", "watch")),
		rule(core, list("nodes"), reading()), events(), rule(list("discovery.k8s.io"), list("endpointslices"), list("list", "watch")),
		rule(list("networking.k8s.io"), list("servicecidrs"), list("list", "watch")))
	p.bind("system:node-proxier", user("system:kube-proxy"))
	// The node agent is its node's proxy too, by the same certificate.
	p.ClusterRoleBindings = append(p.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta("", "howdah:node-proxier"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-proxier"},
		Subjects: []rbacv1.Subject{group("system:nodes")},
	})
	p.clusterRole("system:volume-scheduler",
		rule(core, list("persistentvolumes"), append(list("patch", "update"), reading()...)),
		rule(storage, list("storageclasses"), reading()),
		rule(core, list("persistentvolumeclaims"), append(list("patch", "update"), reading()...)))
	p.bind("system:volume-scheduler", user("system:kube-scheduler"))
	p.scheduler()
	p.managers()

	// The signers of certificates.
	for _, signer := range list("kube-apiserver-client", "kube-apiserver-client-kubelet", "kubelet-serving", "legacy-unknown") {
		r := rule(list("certificates.k8s.io"), list("signers"), list("approve"))
		r.ResourceNames = list("kubernetes.io/" + signer)
		p.clusterRole("system:certificates.k8s.io:"+signer+"-approver", r)
	}
	p.clusterRole("system:certificates.k8s.io:certificatesigningrequests:nodeclient", rule(list("certificates.k8s.io"), list("certificatesigningrequests/nodeclient"), list("create")))
	p.clusterRole("system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", rule(list("certificates.k8s.io"), list("certificatesigningrequests/selfnodeclient"), list("create")))

	// The DNS server of the cluster, which Kubernetes leaves to its installer.
	p.clusterRole("system:coredns",
		rule(core, list("endpoints", "services", "pods", "namespaces"), list("list", "watch")),
		rule(core, list("nodes"), list("get")),
		rule(list("discovery.k8s.io"), list("endpointslices"), list("list", "watch")))
	p.bind("system:coredns", user("system:coredns"), account("coredns"))
	p.clusterRole("system:kube-dns", rule(core, list("endpoints", "services"), list("list", "watch")))
	p.bind("system:kube-dns", account("kube-dns"))
	// Gateways learn which group versions extension API servers serve.
	p.clusterRole("howdah:gateway", rule(list("apiregistration.k8s.io"), list("apiservices"), list("list", "watch")))
	p.bind("howdah:gateway", group("howdah:gateways"))
	// Whoever reads the metrics of the control plane by its certificate.
	p.clusterRole("howdah:monitoring",
		urls("get", "/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/readyz", "/readyz/*"),
		rule(core, list("nodes", "nodes/metrics", "pods", "services", "endpoints"), reading()))
	p.bind("howdah:monitoring", group("howdah:monitors"))
	// Whoever may ask the scheduler and the controllers why they do what they do; bound to nobody.
	p.clusterRole("howdah:inspector", urls("get", "/howdah/*"))
}

// NodeRules are what every node may do, as far as the Node authorizer does not look closer.
func NodeRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(list("authentication.k8s.io"), list("tokenreviews"), list("create")),
		rule(list("authorization.k8s.io"), list("localsubjectaccessreviews", "subjectaccessreviews"), list("create")),
		rule(list(""), list("services"), reading()),
		rule(list(""), list("nodes"), append(list("create"), reading()...)),
		rule(list(""), list("nodes/status"), list("patch", "update")),
		rule(list(""), list("nodes"), list("patch", "update")),
		events(),
		rule(list(""), list("pods"), reading()),
		rule(list(""), list("pods"), list("create", "delete")),
		rule(list(""), list("pods/status"), list("patch", "update")),
		rule(list(""), list("pods/eviction"), list("create")),
		rule(list(""), list("configmaps", "secrets"), reading()),
		rule(list(""), list("persistentvolumeclaims", "persistentvolumes"), list("get")),
		rule(list(""), list("endpoints"), list("get")),
		rule(list("certificates.k8s.io"), list("certificatesigningrequests"), append(list("create"), reading()...)),
		rule(list("coordination.k8s.io"), list("leases"), list("create", "delete", "get", "patch", "update")),
		rule(list("storage.k8s.io"), list("volumeattachments"), list("get")),
		rule(list(""), list("serviceaccounts/token"), list("create")),
		rule(list(""), list("persistentvolumeclaims/status"), list("get", "patch", "update")),
		rule(list("storage.k8s.io"), list("csidrivers"), reading()),
		rule(list("storage.k8s.io"), list("csinodes"), list("create", "delete", "get", "patch", "update")),
		rule(list("node.k8s.io"), list("runtimeclasses"), reading()),
	}
}

func (p *Policy) scheduler() {
	core := list("")
	p.clusterRole("system:kube-scheduler",
		events(),
		rule(list("coordination.k8s.io"), list("leases"), append(list("create", "update"), reading()...)),
		rule(core, list("nodes"), reading()),
		rule(core, list("pods"), append(list("delete"), reading()...)),
		rule(core, list("bindings", "pods/binding"), list("create")),
		rule(core, list("pods/status"), list("patch", "update")),
		rule(core, list("replicationcontrollers", "services"), reading()),
		rule(list("apps", "extensions"), list("replicasets"), reading()),
		rule(list("apps"), list("statefulsets"), reading()),
		rule(list("policy"), list("poddisruptionbudgets"), reading()),
		rule(core, list("persistentvolumeclaims", "persistentvolumes", "namespaces"), reading()),
		rule(list("authentication.k8s.io"), list("tokenreviews"), list("create")),
		rule(list("authorization.k8s.io"), list("subjectaccessreviews"), list("create")),
		rule(list("storage.k8s.io"), list("csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"), reading()),
		rule(list("scheduling.k8s.io"), list("priorityclasses"), reading()),
		rule(list("resource.k8s.io"), list("deviceclasses", "resourceclaims", "resourceslices"), reading()),
		rule(list("resource.k8s.io"), list("resourceclaims/status"), list("patch", "update")))
	p.bind("system:kube-scheduler", user("system:kube-scheduler"))
}

// managers are the process that runs the controllers. Kubernetes' own role lets it make a service account a controller;
// here all controllers call by the process's certificate, so howdah:controllers adds what they need.
func (p *Policy) managers() {
	core := list("")
	p.clusterRole("system:kube-controller-manager",
		events(),
		rule(list("coordination.k8s.io"), list("leases"), append(list("create", "update"), reading()...)),
		rule(core, list("secrets", "serviceaccounts"), list("create")),
		rule(core, list("secrets"), list("delete")),
		rule(core, list("configmaps", "namespaces", "secrets", "serviceaccounts"), list("get")),
		rule(core, list("secrets", "serviceaccounts"), list("update")),
		rule(list("authentication.k8s.io"), list("tokenreviews"), list("create")),
		rule(list("authorization.k8s.io"), list("subjectaccessreviews"), list("create")),
		rule(list("*"), list("*"), list("list", "watch")),
		rule(core, list("serviceaccounts/token"), list("create")))
	p.bind("system:kube-controller-manager", user("system:kube-controller-manager"))

	p.clusterRole("howdah:controllers",
		// The garbage collector and the namespace controller work on every kind that there is.
		rule(list("*"), list("*"), list("delete", "deletecollection", "get", "list", "patch", "update", "watch")),
		rule(core, list("configmaps", "endpoints", "persistentvolumeclaims", "persistentvolumes", "pods", "pods/binding", "pods/eviction", "replicationcontrollers",
			"secrets", "serviceaccounts", "serviceaccounts/token"), list("create")),
		rule(list("apps"), list("controllerrevisions", "replicasets"), list("create")),
		rule(list("batch"), list("jobs"), list("create")),
		rule(list("discovery.k8s.io"), list("endpointslices"), list("create")),
		rule(list("coordination.k8s.io"), list("leases"), list("create")),
		rule(list(rbacv1.GroupName), list("clusterroles"), list("escalate")),
		urls("get", "/api", "/api/*", "/apis", "/apis/*"),
		events())
	p.bind("howdah:controllers", user("system:kube-controller-manager"))
}

// namespaced are the roles of a single namespace.
func (p *Policy) namespaced() {
	const system = metav1.NamespaceSystem
	named := func(r rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule { r.ResourceNames = names; return r }
	leases := func(name string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{
			rule(list("coordination.k8s.io"), list("leases"), append(list("create"), reading()...)),
			named(rule(list("coordination.k8s.io"), list("leases"), list("get", "update")), name),
		}
	}
	p.role(system, "system::leader-locking-kube-scheduler", user("system:kube-scheduler"), leases("kube-scheduler")...)
	p.role(system, "system::leader-locking-kube-controller-manager", user("system:kube-controller-manager"), leases("kube-controller-manager")...)
	p.role(system, "system:controller:bootstrap-signer", account("bootstrap-signer"), rule(list(""), list("secrets"), reading()))
	p.role(system, "system:controller:token-cleaner", account("token-cleaner"), rule(list(""), list("secrets"), append(list("delete"), reading()...)), events())
	p.role(system, "system:controller:cloud-provider", account("cloud-provider"), rule(list(""), list("configmaps"), append(list("create"), reading()...)))
	p.role(metav1.NamespacePublic, "system:controller:bootstrap-signer", account("bootstrap-signer"),
		rule(list(""), list("configmaps"), reading()), named(rule(list(""), list("configmaps"), list("update")), "cluster-info"), events())
	p.role(system, "extension-apiserver-authentication-reader", user("system:kube-scheduler"),
		named(rule(list(""), list("configmaps"), reading()), "extension-apiserver-authentication"))
}
