package rbacpolicy

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespaced are the roles of a single namespace.
func (p *Policy) namespaced() {
	const system, public = metav1.NamespaceSystem, metav1.NamespacePublic
	p.role(system, "extension-apiserver-authentication-reader", named(rule("core", "configmaps", read), "extension-apiserver-authentication"))
	p.bindRole(system, "system::extension-apiserver-authentication-reader", "extension-apiserver-authentication-reader",
		user("system:kube-controller-manager"), user("system:kube-scheduler"))

	locks := []rbacv1.PolicyRule{
		rule("coordination.k8s.io", "leases", "create get list update watch"),
		rule("coordination.k8s.io", "leasecandidates", "create get list update watch"),
	}
	p.role(system, "system::leader-locking-kube-controller-manager", locks...)
	p.bindRole(system, "system::leader-locking-kube-controller-manager", "system::leader-locking-kube-controller-manager",
		user("system:kube-controller-manager"), account("kube-controller-manager"), account("leader-election-controller"))
	p.role(system, "system::leader-locking-kube-scheduler", locks...)
	p.bindRole(system, "system::leader-locking-kube-scheduler", "system::leader-locking-kube-scheduler",
		user("system:kube-scheduler"), account("kube-scheduler"))

	p.controllerRole(system, "bootstrap-signer", rule("core", "secrets", read))
	p.controllerRole(system, "cloud-provider", rule("core", "configmaps", "create get list watch"))
	p.controllerRole(system, "token-cleaner", rule("core", "secrets", "delete get list watch"), events())
	p.controllerRole(public, "bootstrap-signer", rule("core", "configmaps", read), named(rule("core", "configmaps", "update"), "cluster-info"), events())
}

// controllerRole makes a role for a controller, bound to its service account.
func (p *Policy) controllerRole(namespace, controller string, rules ...rbacv1.PolicyRule) {
	name := "system:controller:" + controller
	p.role(namespace, name, rules...)
	p.bindRole(namespace, name, name, account(controller))
}
