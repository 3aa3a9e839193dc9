package rbacpolicy

import rbacv1 "k8s.io/api/rbac/v1"

// workloadControllers are the roles of the controllers that run pods.
func workloadControllers() map[string][]rbacv1.PolicyRule {
	return map[string][]rbacv1.PolicyRule{
		"cronjob-controller": {
			rule("batch", "cronjobs", "get list update watch"),
			rule("batch", "jobs", "create delete get list patch update watch"),
			rule("batch", "cronjobs/status", "update"),
			rule("batch", "cronjobs/finalizers", "update"),
			rule("core", "pods", "delete list watch"),
			events(),
		},
		"daemon-set-controller": {
			rule("apps extensions", "daemonsets", read),
			rule("apps extensions", "daemonsets/status", "update"),
			rule("apps extensions", "daemonsets/finalizers", "update"),
			rule("core", "nodes", "list watch"),
			rule("core", "pods", "create delete list patch watch"),
			rule("core", "pods/binding", "create"),
			rule("apps", "controllerrevisions", "create delete get list patch update watch"),
			events(),
		},
		"deployment-controller": {
			rule("apps extensions", "deployments", "get list update watch"),
			rule("apps extensions", "deployments/status", "update"),
			rule("apps extensions", "deployments/finalizers", "update"),
			rule("apps extensions", "replicasets", "create delete get list patch update watch"),
			rule("core", "pods", "get list update watch"),
			events(),
		},
		"disruption-controller": {
			rule("apps extensions", "deployments", read),
			rule("apps extensions", "replicasets", read),
			rule("core", "replicationcontrollers", read),
			rule("policy", "poddisruptionbudgets", read),
			rule("apps", "statefulsets", read),
			rule("policy", "poddisruptionbudgets/status", "update"),
			rule("core", "pods/status", "patch update"),
			rule("*", "*/scale", "get"),
			events(),
		},
		"horizontal-pod-autoscaler": {
			rule("autoscaling", "horizontalpodautoscalers", read),
			rule("autoscaling", "horizontalpodautoscalers/status", "update"),
			rule("*", "*/scale", "get update"),
			rule("core", "pods", "list watch"),
			rule("metrics.k8s.io", "pods", "list watch"),
			rule("custom.metrics.k8s.io", "*", read),
			rule("external.metrics.k8s.io", "*", read),
			events(),
		},
		"job-controller": {
			rule("batch", "jobs", "get list patch update watch"),
			rule("batch", "jobs/status", "update"),
			rule("batch", "jobs/finalizers", "update"),
			rule("core", "pods", "create delete list patch watch"),
			events(),
		},
		"replicaset-controller": {
			rule("apps extensions", "replicasets", "get list update watch"),
			rule("apps extensions", "replicasets/status", "update"),
			rule("apps extensions", "replicasets/finalizers", "update"),
			rule("core", "pods", "create delete list patch watch"),
			events(),
		},
		"replication-controller": {
			rule("core", "replicationcontrollers", "get list update watch"),
			rule("core", "replicationcontrollers/status", "update"),
			rule("core", "replicationcontrollers/finalizers", "update"),
			rule("core", "pods", "create delete list patch watch"),
			events(),
		},
		"resource-claim-controller": {
			rule("core", "pods", read),
			rule("core", "pods/finalizers", "update"),
			rule("resource.k8s.io", "resourceclaims", "create delete get list watch"),
			rule("resource.k8s.io", "resourceclaims resourceclaims/status", "patch update"),
			rule("core", "pods/status", "patch update"),
			events(),
			rule("resource.k8s.io", "resourceclaims/binding", "patch update"),
		},
		"statefulset-controller": {
			rule("core", "pods", "list watch"),
			rule("apps", "statefulsets", read),
			rule("apps", "statefulsets/status", "update"),
			rule("apps", "statefulsets/finalizers", "update"),
			rule("core", "pods", "create delete get patch update"),
			rule("apps", "controllerrevisions", "create delete get list patch update watch"),
			rule("core", "persistentvolumeclaims", "create get list watch"),
			rule("core", "persistentvolumeclaims", "delete update"),
			rule("core", "pods/finalizers", "update"),
			events(),
		},
		"ttl-after-finished-controller": {
			rule("batch", "jobs", "delete get list watch"),
			events(),
		},
	}
}
