package rbac

import (
	"context"
	"errors"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
)

// Guard lets nobody grant what they do not hold, unless they may escalate (roles) or bind (bindings). It stands in the
// admission chain, because that sees what a write comes to, and cannot be switched off.
type Guard struct {
	Source     Source
	Authorizer authz.Authorizer
}

// everything is what the holder of a role that aggregates others may come to hold.
var everything = []rbacv1.PolicyRule{
	{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
	{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
}

// Name implements admission.Plugin.
func (*Guard) Name() string { return "RBACEscalation" }

// Handles implements admission.Plugin.
func (*Guard) Handles(a *admission.Attributes) bool {
	return a.Resource.Kind.GVK.Group == rbacv1.GroupName && a.Operation != admission.Delete && a.User != nil && !a.User.In(authn.MastersGroup)
}

// Permit implements admission.Permitter.
func (g *Guard) Permit(ctx context.Context, a *admission.Attributes) error {
	switch obj := a.Object.(type) {
	case *rbacv1.Role:
		if old, ok := a.Old.(*rbacv1.Role); ok && equality.Semantic.DeepEqual(old.Rules, obj.Rules) {
			return nil
		}
		return g.role(ctx, a, obj.Rules, nil)
	case *rbacv1.ClusterRole:
		old, ok := a.Old.(*rbacv1.ClusterRole)
		if ok && equality.Semantic.DeepEqual(old.Rules, obj.Rules) && equality.Semantic.DeepEqual(old.AggregationRule, obj.AggregationRule) {
			return nil
		}
		return g.role(ctx, a, obj.Rules, obj.AggregationRule)
	case *rbacv1.RoleBinding:
		old, ok := a.Old.(*rbacv1.RoleBinding)
		if ok && old.RoleRef == obj.RoleRef && equality.Semantic.DeepEqual(old.Subjects, obj.Subjects) {
			return nil
		}
		return g.binding(ctx, a, obj.RoleRef, obj.Namespace)
	case *rbacv1.ClusterRoleBinding:
		old, ok := a.Old.(*rbacv1.ClusterRoleBinding)
		if ok && old.RoleRef == obj.RoleRef && equality.Semantic.DeepEqual(old.Subjects, obj.Subjects) {
			return nil
		}
		return g.binding(ctx, a, obj.RoleRef, "")
	}
	return nil
}

func (g *Guard) role(ctx context.Context, a *admission.Attributes, rules []rbacv1.PolicyRule, aggregation *rbacv1.AggregationRule) error {
	if g.may(ctx, a, "escalate", a.Resource.Kind.Resource, a.Object.GetName(), a.Object.GetNamespace()) {
		return nil
	}
	if err := g.confirm(a, rules, a.Object.GetNamespace()); err != nil {
		return a.Forbidden(err)
	}
	if aggregation != nil && g.confirm(a, everything, "") != nil {
		return a.Forbidden(errors.New("must have cluster-admin privileges to use the aggregationRule"))
	}
	return nil
}

func (g *Guard) binding(ctx context.Context, a *admission.Attributes, ref rbacv1.RoleRef, namespace string) error {
	resource := "clusterroles"
	if ref.Kind == "Role" {
		resource = "roles"
	}
	if g.may(ctx, a, "bind", resource, ref.Name, namespace) {
		return nil
	}
	rules, err := g.Source.Index().Rules(ref, namespace)
	if err != nil { // Kubernetes tells of the binding's kind, and of the role's name
		return apierrors.NewNotFound(a.Resource.GroupResource(), ref.Name)
	}
	if err := g.confirm(a, rules, namespace); err != nil {
		return a.Forbidden(err)
	}
	return nil
}

func (g *Guard) may(ctx context.Context, a *admission.Attributes, verb, resource, name, namespace string) bool {
	decision, _, err := g.Authorizer.Authorize(ctx, &authz.Attributes{
		User: a.User, Verb: verb, Group: rbacv1.GroupName, Version: "*", Resource: resource, Name: name, Namespace: namespace,
	})
	return err == nil && decision == authz.Allow
}

// confirm returns an *Escalation unless the user holds all the rules in the namespace.
func (g *Guard) confirm(a *admission.Attributes, rules []rbacv1.PolicyRule, namespace string) error {
	var held []rbacv1.PolicyRule
	var unknown []error
	for _, one := range g.Source.Index().grants(a.User, namespace) {
		held = append(held, one.rules...)
		if one.missing != nil { // as above
			unknown = append(unknown, apierrors.NewNotFound(a.Resource.GroupResource(), one.ref.Name))
		}
	}
	if missing := Missing(held, rules); len(missing) > 0 {
		return &Escalation{User: a.User.Name, Groups: a.User.Groups, Missing: missing, Unknown: utilerrors.NewAggregate(unknown)}
	}
	return nil
}
