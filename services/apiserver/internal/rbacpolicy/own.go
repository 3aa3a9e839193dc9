package rbacpolicy

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// own are the roles that howdah has beside Kubernetes' own. Their label tells them apart.
func (p *Policy) own() {
	var h Policy
	// The node agent is its node's proxy too, by the same certificate.
	h.bindTo("howdah:node-proxier", "system:node-proxier", group("system:nodes"))

	// The node agent enforces network policies, too. The Node authorizer shows it the pods that they may be about.
	h.clusterRole("howdah:node-policies",
		rule("core", "namespaces", "list watch"),
		rule("networking.k8s.io", "networkpolicies", "list watch"),
	)
	h.bind("howdah:node-policies", group("system:nodes"))

	// Whoever is known may know by which authorities the cluster is; nodes that have joined follow them.
	h.clusterRole("howdah:authorities", urls("get", "/howdah/v1/authorities"))
	h.bind("howdah:authorities", group("system:authenticated"))

	// Kubernetes' own role lets the controller manager make service accounts controllers; here all controllers call by
	// the process's certificate. The garbage collector and the namespace controller work on every kind that there is.
	h.clusterRole("howdah:controllers",
		rule("*", "*", "delete deletecollection get list patch update watch"),
		rule("core", "configmaps endpoints persistentvolumeclaims persistentvolumes pods pods/binding pods/eviction replicationcontrollers secrets serviceaccounts serviceaccounts/token", "create"),
		rule("apps", "controllerrevisions replicasets", "create"),
		rule("batch", "jobs", "create"),
		rule("discovery.k8s.io", "endpointslices", "create"),
		rule("coordination.k8s.io", "leases", "create"),
		rule("networking.k8s.io", "ipaddresses", "create"),
		rule("resource.k8s.io", "resourceclaims", "create"),
		rule("storage.k8s.io", "volumeattachments", "create"),
		rule("rbac.authorization.k8s.io", "clusterroles", "escalate"),
		rule("authorization.k8s.io", "subjectaccessreviews", "create"),
		named(rule("certificates.k8s.io", "signers", "approve"), "kubernetes.io/kube-apiserver-client-kubelet"),
		named(rule("certificates.k8s.io", "signers", "sign"), "kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown"),
		urls("get", "/api /api/* /apis /apis/*"),
		events(),
	)
	h.bind("howdah:controllers", user("system:kube-controller-manager"))

	// The DNS server of the cluster, which Kubernetes leaves to its installer.
	h.clusterRole("system:coredns",
		rule("core", "endpoints services pods namespaces", "list watch"),
		rule("core", "nodes", "get"),
		rule("discovery.k8s.io", "endpointslices", "list watch"),
	)
	h.bind("system:coredns", user("system:coredns"), account("coredns"))
	// Its Corefile is a ConfigMap, which it makes where there is none.
	h.role(metav1.NamespaceSystem, "system:coredns", rule("core", "configmaps", "create"), named(rule("core", "configmaps", read), "coredns"))
	h.bindRole(metav1.NamespaceSystem, "system:coredns", "system:coredns", user("system:coredns"), account("coredns"))

	// Kubernetes' own role has this only where rules that taint devices are switched on. The scheduler follows them always: there are none where they are off.
	h.clusterRole("howdah:scheduler", rule("resource.k8s.io", "devicetaintrules", "list watch"))
	h.bind("howdah:scheduler", user("system:kube-scheduler"))

	// The ingress controller. It has the certificates that Ingresses name, and so it may list Secrets; it watches those of the type kubernetes.io/tls alone,
	// which a role cannot say. ConfigMaps have the authorities by which clients and backends are judged, namespaces the labels by which Gateways choose routes, and
	// definitions say whether there is the Gateway API. By its Lease it elects who writes.
	h.clusterRole("howdah:ingress",
		rule("networking.k8s.io", "ingresses ingressclasses", "list watch"),
		rule("networking.k8s.io", "ingresses/status", "update"),
		rule("core", "services secrets nodes configmaps namespaces", "list watch"),
		rule("discovery.k8s.io", "endpointslices", "list watch"),
		rule("apiextensions.k8s.io", "customresourcedefinitions", "list watch"),
		rule("gateway.networking.k8s.io", "backendtlspolicies gatewayclasses gateways grpcroutes httproutes listenersets referencegrants tlsroutes", "list watch"),
		rule("gateway.networking.k8s.io", "backendtlspolicies/status gatewayclasses/status gateways/status grpcroutes/status httproutes/status listenersets/status tlsroutes/status", "update"),
		events(),
	)
	h.bind("howdah:ingress", group("howdah:ingresses"))
	h.role(metav1.NamespaceSystem, "howdah:ingress",
		rule("coordination.k8s.io", "leases", "create"),
		named(rule("coordination.k8s.io", "leases", "get update"), "howdah-ingress"),
	)
	h.bindRole(metav1.NamespaceSystem, "howdah:ingress", "howdah:ingress", group("howdah:ingresses"))

	// The federation. What it carries to other clusters may be of any kind: it reads all of them, puts its finalizer on what it carries, and writes the status that it
	// gathered. Its kinds it defines itself, and decides in them.
	h.clusterRole("howdah:federation",
		rule("*", "*", "get list watch"),
		rule("*", "*", "patch"),
		rule("apiextensions.k8s.io", "customresourcedefinitions", "create"),
		rule("federation.howdah.dev", "placements clusterplacements", "create update delete"),
		rule("federation.howdah.dev", "clusters", "update"),
		rule("federation.howdah.dev", "clusters/status clusterpropagationpolicies/status propagationpolicies/status placements/status clusterplacements/status", "update"),
		events(),
	)
	h.bind("howdah:federation", group("howdah:federations"))

	// The service that keeps what containers write. It asks which node a pod is bound to, or was.
	h.clusterRole("howdah:logs", rule("core", "pods", "get"))
	h.bind("howdah:logs", group("howdah:loggers"))

	// The service that finds out what nodes and pods use.
	h.clusterRole("howdah:metrics", rule("core", "nodes", "list watch"), rule("core", "nodes/metrics", "get"))
	h.bind("howdah:metrics", group("howdah:meters"))

	// Whoever reads the metrics of the control plane by its certificate.
	h.clusterRole("howdah:monitoring",
		urls("get", "/healthz /healthz/* /livez /livez/* /metrics /readyz /readyz/*"),
		rule("core", "nodes nodes/metrics pods services endpoints", read),
	)
	h.bind("howdah:monitoring", group("howdah:monitors"))

	// Whoever may ask the scheduler and the controllers why they do what they do; bound to nobody.
	h.clusterRole("howdah:inspector", urls("get", "/howdah/*"))

	for _, role := range h.ClusterRoles {
		role.Labels[bootstrapLabel] = ownValue
	}
	for _, binding := range h.ClusterRoleBindings {
		binding.Labels[bootstrapLabel] = ownValue
	}
	for _, role := range h.Roles {
		role.Labels[bootstrapLabel] = ownValue
	}
	for _, binding := range h.RoleBindings {
		binding.Labels[bootstrapLabel] = ownValue
	}
	p.Roles = append(p.Roles, h.Roles...)
	p.RoleBindings = append(p.RoleBindings, h.RoleBindings...)
	p.ClusterRoles = append(p.ClusterRoles, h.ClusterRoles...)
	p.ClusterRoleBindings = append(p.ClusterRoleBindings, h.ClusterRoleBindings...)
}
