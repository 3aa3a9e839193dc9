// Package rbacpolicy has the roles and bindings that every cluster has, and keeps them as they should be.
package rbacpolicy

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What marks these objects.
const (
	bootstrapLabel  = "kubernetes.io/bootstrapping"
	bootstrapValue  = "rbac-defaults"
	aggregatePrefix = "rbac.authorization.k8s.io/aggregate-to-"
)

// Policy is a set of roles and bindings.
type Policy struct {
	ClusterRoles        []*rbacv1.ClusterRole
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	Roles               []*rbacv1.Role
	RoleBindings        []*rbacv1.RoleBinding
}

// Default returns what every cluster has.
func Default() Policy {
	var p Policy
	p.clusterRoles()
	p.components()
	p.controllers()
	p.namespaced()
	return p
}

// rule of API groups, resources and verbs.
func rule(groups, resources, verbs []string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: groups, Resources: resources, Verbs: verbs}
}

func urls(verb string, paths ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{NonResourceURLs: paths, Verbs: []string{verb}}
}

func list(s ...string) []string { return s }

// Verbs that go together.
func reading() []string { return list("get", "list", "watch") }
func writing() []string {
	return list("create", "delete", "deletecollection", "patch", "update")
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{bootstrapLabel: bootstrapValue},
		Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
	}
}

func (p *Policy) clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{ObjectMeta: meta("", name), Rules: rules}
	p.ClusterRoles = append(p.ClusterRoles, r)
	return r
}

// bind gives a cluster role to subjects everywhere, by a binding of the same name.
func (p *Policy) bind(role string, subjects ...rbacv1.Subject) {
	p.ClusterRoleBindings = append(p.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta("", role), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: subjects,
	})
}

func (p *Policy) role(namespace, name string, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	p.Roles = append(p.Roles, &rbacv1.Role{ObjectMeta: meta(namespace, name), Rules: rules})
	p.RoleBindings = append(p.RoleBindings, &rbacv1.RoleBinding{
		ObjectMeta: meta(namespace, name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: []rbacv1.Subject{subject},
	})
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
}

func account(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: name}
}
