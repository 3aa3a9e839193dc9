// Package rbacpolicy has the roles and bindings that every cluster has, and keeps them as they should be.
package rbacpolicy

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What marks these objects.
const (
	bootstrapLabel  = "kubernetes.io/bootstrapping"
	bootstrapValue  = "rbac-defaults"
	ownValue        = "howdah-defaults"
	aggregatePrefix = "rbac.authorization.k8s.io/aggregate-to-"
)

// Policy is a set of roles and bindings.
type Policy struct {
	ClusterRoles        []*rbacv1.ClusterRole
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	Roles               []*rbacv1.Role
	RoleBindings        []*rbacv1.RoleBinding
}

// Served says what of the API is served by settings: roles come with it.
type Served struct {
	// Features are the feature gates that are on.
	Features map[string]bool
	// Usage says that metrics.k8s.io is made here.
	Usage bool
}

// Default returns what every cluster has that serves this.
func Default(served Served) Policy {
	var p Policy
	p.everybody()
	p.aggregated()
	p.components(served.Features)
	p.signers()
	p.controllers()
	p.namespaced()
	p.own()
	if served.Usage {
		p.usage()
	}
	p.gated(served.Features)
	return p
}

// Verbs that go together.
const (
	read  = "get list watch"
	write = "create delete deletecollection patch update"
)

// rule of API groups, resources and verbs, each separated by spaces. The group without a name is written core.
func rule(groups, resources, verbs string) rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{APIGroups: strings.Fields(groups), Resources: strings.Fields(resources), Verbs: strings.Fields(verbs)}
	for i, group := range r.APIGroups {
		if group == "core" {
			r.APIGroups[i] = ""
		}
	}
	return r
}

// named is a rule that holds for objects of these names only.
func named(r rbacv1.PolicyRule, names string) rbacv1.PolicyRule {
	r.ResourceNames = strings.Fields(names)
	return r
}

func urls(verbs, paths string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{NonResourceURLs: strings.Fields(paths), Verbs: strings.Fields(verbs)}
}

func events() rbacv1.PolicyRule {
	return rule("core events.k8s.io", "events", "create patch update")
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
func (p *Policy) bind(role string, subjects ...rbacv1.Subject) { p.bindTo(role, role, subjects...) }

func (p *Policy) bindTo(name, role string, subjects ...rbacv1.Subject) {
	p.ClusterRoleBindings = append(p.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta("", name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: subjects,
	})
}

func (p *Policy) role(namespace, name string, rules ...rbacv1.PolicyRule) {
	p.Roles = append(p.Roles, &rbacv1.Role{ObjectMeta: meta(namespace, name), Rules: rules})
}

func (p *Policy) bindRole(namespace, name, role string, subjects ...rbacv1.Subject) {
	p.RoleBindings = append(p.RoleBindings, &rbacv1.RoleBinding{
		ObjectMeta: meta(namespace, name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role}, Subjects: subjects,
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
