package rbacpolicy

import rbacv1 "k8s.io/api/rbac/v1"

// storageControllers are the roles of the controllers that look after volumes.
func storageControllers() map[string][]rbacv1.PolicyRule {
	return map[string][]rbacv1.PolicyRule{
		"attachdetach-controller": {
			rule("core", "persistentvolumeclaims persistentvolumes", "list watch"),
			rule("core", "nodes", read),
			rule("core", "nodes/status", "patch update"),
			rule("core", "pods", "list watch"),
			events(),
			rule("storage.k8s.io", "volumeattachments", "create delete get list watch"),
			rule("storage.k8s.io", "csidrivers", read),
			rule("storage.k8s.io", "csinodes", read),
		},
		"ephemeral-volume-controller": {
			rule("core", "pods", read),
			rule("core", "pods/finalizers", "update"),
			rule("core", "persistentvolumeclaims", "create get list watch"),
			events(),
		},
		"expand-controller": {
			rule("core", "persistentvolumes", "get list patch update watch"),
			rule("core", "persistentvolumeclaims/status", "patch update"),
			rule("core", "persistentvolumeclaims", read),
			events(),
		},
		"persistent-volume-binder": {
			rule("core", "persistentvolumes", "create delete get list update watch"),
			rule("core", "persistentvolumes/status", "update"),
			rule("core", "persistentvolumeclaims", "get list update watch"),
			rule("core", "persistentvolumeclaims/status", "update"),
			rule("core", "pods", "create delete get list watch"),
			rule("storage.k8s.io", "storageclasses", read),
			rule("core", "nodes", "list watch"),
			events(),
			rule("core", "events", "watch"),
		},
		"pv-protection-controller": {
			rule("core", "persistentvolumes", "get list update watch"),
			events(),
		},
		"pvc-protection-controller": {
			rule("core", "persistentvolumeclaims", "get list update watch"),
			rule("core", "persistentvolumeclaims/status", "update"),
			rule("core", "pods", read),
			events(),
		},
		"selinux-warning-controller": {
			events(),
			rule("core", "persistentvolumes", read),
			rule("core", "persistentvolumeclaims", read),
			rule("core", "pods", read),
			rule("storage.k8s.io", "csidrivers", read),
		},
		"volumeattributesclass-protection-controller": {
			rule("core", "persistentvolumeclaims", read),
			rule("core", "persistentvolumes", read),
			rule("storage.k8s.io", "volumeattributesclasses", "get list update watch"),
			events(),
		},
	}
}
