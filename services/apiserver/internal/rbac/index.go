package rbac

import (
	"cmp"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/authn"
)

// State is every role and binding at one moment; all of it is read-only.
type State struct {
	Roles               []*rbacv1.Role
	RoleBindings        []*rbacv1.RoleBinding
	ClusterRoles        []*rbacv1.ClusterRole
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
}

// Index finds the grants of a user. It does not change once made.
type Index struct {
	roles        map[[2]string][]rbacv1.PolicyRule // by namespace and name
	clusterRoles map[string][]rbacv1.PolicyRule
	cluster      map[string][]*grant            // by subject
	namespaced   map[string]map[string][]*grant // by namespace and subject
}

// grant is what one binding gives to its subjects.
type grant struct {
	rules []rbacv1.PolicyRule
	// missing says that the role does not exist.
	missing error
	// reason is what an audit is told when the grant allows.
	binding string
	ref     rbacv1.RoleRef
	// subjects and namespace are the binding's.
	subjects  []rbacv1.Subject
	namespace string
	// place is the binding's among all, cluster-wide ones first, by namespace and name.
	place int
}

// NewIndex indexes a state.
func NewIndex(s State) *Index {
	x := &Index{
		roles: map[[2]string][]rbacv1.PolicyRule{}, clusterRoles: map[string][]rbacv1.PolicyRule{},
		cluster: map[string][]*grant{}, namespaced: map[string]map[string][]*grant{},
	}
	for _, r := range s.Roles {
		x.roles[[2]string{r.Namespace, r.Name}] = r.Rules
	}
	for _, r := range s.ClusterRoles {
		x.clusterRoles[r.Name] = r.Rules
	}
	for n, b := range s.ClusterRoleBindings {
		g := &grant{binding: fmt.Sprintf("ClusterRoleBinding %q", b.Name), ref: b.RoleRef, subjects: b.Subjects, place: n}
		g.rules, g.missing = x.Rules(b.RoleRef, "")
		add(x.cluster, b.Subjects, "", g)
	}
	for n, b := range s.RoleBindings {
		g := &grant{binding: fmt.Sprintf("RoleBinding %q", b.Name+"/"+b.Namespace), ref: b.RoleRef, subjects: b.Subjects, namespace: b.Namespace, place: len(s.ClusterRoleBindings) + n}
		g.rules, g.missing = x.Rules(b.RoleRef, b.Namespace)
		if x.namespaced[b.Namespace] == nil {
			x.namespaced[b.Namespace] = map[string][]*grant{}
		}
		add(x.namespaced[b.Namespace], b.Subjects, b.Namespace, g)
	}
	return x
}

// add files a grant under each subject. A service account is filed as the user that it is.
func add(to map[string][]*grant, subjects []rbacv1.Subject, namespace string, g *grant) {
	seen := map[string]bool{}
	for _, s := range subjects {
		if key := keyOf(s, namespace); key != "" && !seen[key] {
			seen[key] = true
			to[key] = append(to[key], g)
		}
	}
}

// keyOf returns what a subject of a binding in the namespace is filed under; "" where it means nobody.
func keyOf(s rbacv1.Subject, namespace string) string {
	switch s.Kind {
	case rbacv1.UserKind:
		return userKey(s.Name)
	case rbacv1.GroupKind:
		return groupKey(s.Name)
	case rbacv1.ServiceAccountKind:
		if ns := cmp.Or(s.Namespace, namespace); ns != "" {
			return userKey(authn.ServiceAccountName(ns, s.Name))
		}
	}
	return ""
}

// subjectOf describes the first of the binding's subjects that is the user or one of its groups.
func (g *grant) subjectOf(user *authn.User) string {
	for _, s := range g.subjects {
		switch key := keyOf(s, g.namespace); {
		case key == "" || key[0] == 'g' && !user.In(s.Name) || key[0] == 'u' && key != userKey(user.Name):
		case s.Kind == rbacv1.ServiceAccountKind:
			return fmt.Sprintf("%s %q", s.Kind, s.Name+"/"+cmp.Or(s.Namespace, g.namespace))
		default:
			return fmt.Sprintf("%s %q", s.Kind, s.Name)
		}
	}
	return ""
}

func userKey(name string) string  { return "u" + name }
func groupKey(name string) string { return "g" + name }

// Rules returns the rules of the role that a binding in the namespace refers to, or a 404.
func (x *Index) Rules(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	resource := "clusterrole" // in the singular, as Kubernetes' text has it
	rules, ok := x.clusterRoles[ref.Name]
	if ref.Kind == "Role" {
		resource = "role"
		rules, ok = x.roles[[2]string{namespace, ref.Name}]
	}
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}, ref.Name)
	}
	return rules, nil
}

// visit calls f with each grant that the user has in the namespace, cluster-wide ones first, until f returns false.
func (x *Index) visit(user *authn.User, namespace string, f func(g *grant) bool) {
	each := func(from map[string][]*grant) bool {
		if len(from) == 0 {
			return true
		}
		for _, g := range from[userKey(user.Name)] {
			if !f(g) {
				return false
			}
		}
		for _, group := range user.Groups {
			for _, g := range from[groupKey(group)] {
				if !f(g) {
					return false
				}
			}
		}
		return true
	}
	if each(x.cluster) && namespace != "" {
		each(x.namespaced[namespace])
	}
}

// RulesFor returns all rules that hold for a user in a namespace, and the roles that could not be found.
func (x *Index) RulesFor(user *authn.User, namespace string) (rules []rbacv1.PolicyRule, missing []error) {
	for _, g := range x.grants(user, namespace) {
		rules = append(rules, g.rules...)
		if g.missing != nil {
			missing = append(missing, g.missing)
		}
	}
	return rules, missing
}

// grants returns what holds for a user in a namespace, each binding once, by how many of its subjects the user may be one.
func (x *Index) grants(user *authn.User, namespace string) []*grant {
	var all []*grant
	x.visit(user, namespace, func(g *grant) bool {
		all = append(all, g)
		return true
	})
	slices.SortStableFunc(all, func(a, b *grant) int { return cmp.Compare(a.place, b.place) })
	return slices.Compact(all)
}
