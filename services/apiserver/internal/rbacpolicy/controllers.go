package rbacpolicy

import rbacv1 "k8s.io/api/rbac/v1"

// controllers are the roles of the controllers that Kubernetes names, each bound to the service account of its name in
// kube-system: tools that bring a controller of their own use them.
func (p *Policy) controllers() {
	core, apps, all := list(""), list("apps", "extensions"), append(writing(), reading()...)
	pods := rule(core, list("pods"), append(list("create", "delete", "patch"), reading()...))
	for _, c := range []struct {
		name  string
		rules []rbacv1.PolicyRule
	}{
		{"attachdetach-controller", []rbacv1.PolicyRule{
			rule(core, list("persistentvolumes", "persistentvolumeclaims", "nodes", "pods"), reading()), rule(core, list("nodes/status"), list("patch", "update")),
			rule(list("storage.k8s.io"), list("volumeattachments"), append(list("create", "delete"), reading()...)), rule(list("storage.k8s.io"), list("csidrivers", "csinodes"), reading())}},
		{"clusterrole-aggregation-controller", []rbacv1.PolicyRule{rule(list(rbacv1.GroupName), list("clusterroles"), append(list("escalate", "patch", "update"), reading()...))}},
		{"cronjob-controller", []rbacv1.PolicyRule{
			rule(list("batch"), list("cronjobs"), append(list("update"), reading()...)), rule(list("batch"), list("jobs"), append(list("create", "delete", "patch", "update"), reading()...)),
			rule(list("batch"), list("cronjobs/status", "cronjobs/finalizers"), list("update")), rule(core, list("pods"), list("delete", "list"))}},
		{"daemon-set-controller", []rbacv1.PolicyRule{
			rule(apps, list("daemonsets"), reading()), rule(apps, list("daemonsets/status", "daemonsets/finalizers"), list("update")), rule(core, list("nodes"), list("list", "watch")), pods,
			rule(core, list("pods/binding"), list("create")), rule(list("apps"), list("controllerrevisions"), append(list("create", "delete", "patch", "update"), reading()...))}},
		{"deployment-controller", []rbacv1.PolicyRule{
			rule(apps, list("deployments"), append(list("update"), reading()...)), rule(apps, list("deployments/status", "deployments/finalizers"), list("update")),
			rule(apps, list("replicasets"), append(list("create", "delete", "patch", "update"), reading()...)), rule(core, list("pods"), append(list("update"), reading()...))}},
		{"disruption-controller", []rbacv1.PolicyRule{
			rule(append(apps, "", "policy"), list("deployments", "replicasets", "statefulsets", "replicationcontrollers", "poddisruptionbudgets", "pods"), reading()),
			rule(list("policy"), list("poddisruptionbudgets/status"), list("update")), rule(core, list("pods/status"), list("patch", "update")), rule(list("*"), list("*/scale"), list("get"))}},
		{"endpoint-controller", []rbacv1.PolicyRule{rule(core, list("pods", "services"), reading()), rule(core, list("endpoints"), append(list("create", "delete", "update"), reading()...)), rule(core, list("endpoints/restricted"), list("create"))}},
		{"endpointslice-controller", []rbacv1.PolicyRule{rule(core, list("nodes", "pods", "services"), reading()), rule(core, list("services/finalizers"), list("update")),
			rule(list("discovery.k8s.io"), list("endpointslices"), append(list("create", "delete", "update"), reading()...)), rule(list("discovery.k8s.io"), list("endpointslices/restricted"), list("create"))}},
		{"endpointslicemirroring-controller", []rbacv1.PolicyRule{rule(core, list("endpoints", "services"), reading()), rule(core, list("endpoints/finalizers", "services/finalizers"), list("update")),
			rule(list("discovery.k8s.io"), list("endpointslices"), append(list("create", "delete", "update"), reading()...))}},
		{"ephemeral-volume-controller", []rbacv1.PolicyRule{rule(core, list("pods/finalizers"), list("update")), rule(core, list("pods"), reading()), rule(core, list("persistentvolumeclaims"), append(list("create"), reading()...))}},
		{"expand-controller", []rbacv1.PolicyRule{rule(core, list("persistentvolumes"), append(list("patch", "update"), reading()...)), rule(core, list("persistentvolumeclaims/status"), list("patch", "update")), rule(core, list("persistentvolumeclaims"), reading())}},
		{"generic-garbage-collector", []rbacv1.PolicyRule{rule(list("*"), list("*"), append(list("delete", "patch", "update"), reading()...))}},
		{"horizontal-pod-autoscaler", []rbacv1.PolicyRule{rule(list("autoscaling"), list("horizontalpodautoscalers"), reading()), rule(list("autoscaling"), list("horizontalpodautoscalers/status"), list("update")),
			rule(list("*"), list("*/scale"), list("get", "update")), rule(core, list("pods"), list("list")),
			rule(list("metrics.k8s.io"), list("pods"), list("list")), rule(list("custom.metrics.k8s.io"), list("*"), list("get", "list")), rule(list("external.metrics.k8s.io"), list("*"), list("get", "list"))}},
		{"job-controller", []rbacv1.PolicyRule{rule(list("batch"), list("jobs"), append(list("patch", "update"), reading()...)), rule(list("batch"), list("jobs/status", "jobs/finalizers"), list("update")), pods}},
		{"legacy-service-account-token-cleaner", []rbacv1.PolicyRule{rule(core, list("configmaps"), list("get")), rule(core, list("secrets"), append(list("delete", "patch"), reading()...))}},
		{"namespace-controller", []rbacv1.PolicyRule{rule(core, list("namespaces"), append(list("delete"), reading()...)), rule(core, list("namespaces/finalize", "namespaces/status"), list("update")), rule(list("*"), list("*"), list("delete", "deletecollection", "get", "list"))}},
		{"node-controller", []rbacv1.PolicyRule{rule(core, list("nodes"), append(list("delete", "patch", "update"), reading()...)), rule(core, list("nodes/status", "pods/status"), list("patch", "update")), rule(core, list("pods"), append(list("delete"), reading()...))}},
		{"persistent-volume-binder", []rbacv1.PolicyRule{rule(core, list("persistentvolumes"), all), rule(core, list("persistentvolumes/status", "persistentvolumeclaims/status"), list("update")),
			rule(core, list("persistentvolumeclaims"), append(list("update"), reading()...)), rule(list("storage.k8s.io"), list("storageclasses"), reading()), rule(core, list("nodes", "secrets"), list("get", "list"))}},
		{"pod-garbage-collector", []rbacv1.PolicyRule{rule(core, list("pods"), append(list("delete"), reading()...)), rule(core, list("nodes"), list("get", "list")), rule(core, list("pods/status"), list("patch"))}},
		{"pv-protection-controller", []rbacv1.PolicyRule{rule(core, list("persistentvolumes"), append(list("update"), reading()...))}},
		{"pvc-protection-controller", []rbacv1.PolicyRule{rule(core, list("persistentvolumeclaims"), append(list("update"), reading()...)), rule(core, list("pods"), reading())}},
		{"replicaset-controller", []rbacv1.PolicyRule{rule(apps, list("replicasets"), append(list("update"), reading()...)), rule(apps, list("replicasets/status", "replicasets/finalizers"), list("update")), pods}},
		{"replication-controller", []rbacv1.PolicyRule{rule(core, list("replicationcontrollers"), append(list("update"), reading()...)), rule(core, list("replicationcontrollers/status", "replicationcontrollers/finalizers"), list("update")), pods}},
		{"resourcequota-controller", []rbacv1.PolicyRule{rule(list("*"), list("*"), list("list", "watch")), rule(core, list("resourcequotas/status"), list("update"))}},
		{"root-ca-cert-publisher", []rbacv1.PolicyRule{rule(core, list("configmaps"), list("create", "update"))}},
		{"route-controller", []rbacv1.PolicyRule{rule(core, list("nodes"), list("list", "watch")), rule(core, list("nodes/status"), list("patch"))}},
		{"service-account-controller", []rbacv1.PolicyRule{rule(core, list("serviceaccounts"), list("create"))}},
		{"service-controller", []rbacv1.PolicyRule{rule(core, list("services"), reading()), rule(core, list("services/status"), list("patch", "update")), rule(core, list("nodes"), list("list", "watch"))}},
		{"statefulset-controller", []rbacv1.PolicyRule{rule(list("apps"), list("statefulsets"), reading()), rule(list("apps"), list("statefulsets/status", "statefulsets/finalizers"), list("update")), pods,
			rule(core, list("pods"), list("update")), rule(list("apps"), list("controllerrevisions"), append(list("create", "delete", "patch", "update"), reading()...)), rule(core, list("persistentvolumeclaims"), append(list("create", "delete", "update"), reading()...))}},
		{"ttl-after-finished-controller", []rbacv1.PolicyRule{rule(list("batch"), list("jobs"), append(list("delete"), reading()...))}},
		{"ttl-controller", []rbacv1.PolicyRule{rule(core, list("nodes"), append(list("patch", "update"), reading()...))}},
	} {
		name := "system:controller:" + c.name
		p.clusterRole(name, append(c.rules, events())...)
		p.bind(name, account(c.name))
	}
}
