package rbac

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
)

type fixed struct{ index *Index }

func (f fixed) Index() *Index { return f.index }

func rules(r ...rbacv1.PolicyRule) []rbacv1.PolicyRule { return r }

func pods(verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: verbs}
}

func state() State {
	ref := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	named := func(ns, name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }
	return State{
		Roles: []*rbacv1.Role{{ObjectMeta: named("a", "reader"), Rules: rules(pods("get", "list"))}},
		ClusterRoles: []*rbacv1.ClusterRole{
			{ObjectMeta: named("", "all"), Rules: rules(rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})},
			{ObjectMeta: named("", "health"), Rules: rules(rbacv1.PolicyRule{NonResourceURLs: []string{"/healthz", "/livez/*"}, Verbs: []string{"get"}})},
			{ObjectMeta: named("", "scaler"), Rules: rules(rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"*/scale"}, Verbs: []string{"update"}})},
			{ObjectMeta: named("", "one"), Rules: rules(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"s"}, Verbs: []string{"get"}})},
		},
		RoleBindings: []*rbacv1.RoleBinding{
			{ObjectMeta: named("a", "rb"), RoleRef: ref("Role", "reader"), Subjects: []rbacv1.Subject{{Kind: "User", Name: "jane"}, {Kind: "ServiceAccount", Name: "bot"}}},
			{ObjectMeta: named("b", "rb"), RoleRef: ref("ClusterRole", "all"), Subjects: []rbacv1.Subject{{Kind: "Group", Name: "devs"}}},
			{ObjectMeta: named("c", "rb"), RoleRef: ref("Role", "gone"), Subjects: []rbacv1.Subject{{Kind: "User", Name: "jane"}}},
		},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{
			{ObjectMeta: named("", "h"), RoleRef: ref("ClusterRole", "health"), Subjects: []rbacv1.Subject{{Kind: "Group", Name: "everybody"}}},
			{ObjectMeta: named("", "s"), RoleRef: ref("ClusterRole", "scaler"), Subjects: []rbacv1.Subject{{Kind: "User", Name: "jane"}}},
			{ObjectMeta: named("", "o"), RoleRef: ref("ClusterRole", "one"), Subjects: []rbacv1.Subject{{Kind: "User", Name: "jane"}}},
		},
	}
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	r := Authorizer{Source: fixed{NewIndex(state())}}
	for _, c := range []struct {
		user, groups string
		a            authz.Attributes
		want         authz.Decision
		reason       string
	}{
		{"jane", "", authz.Attributes{Verb: "get", Resource: "pods", Namespace: "a", Name: "p"}, authz.Allow, `RBAC: allowed by RoleBinding "rb/a" of Role "reader" to User "jane"`},
		{"jane", "", authz.Attributes{Verb: "get", Resource: "pods", Namespace: "b", Name: "p"}, authz.NoOpinion, ""},
		{"jane", "", authz.Attributes{Verb: "get", Resource: "pods"}, authz.NoOpinion, ""},
		{"jane", "", authz.Attributes{Verb: "get", Resource: "pods", Subresource: "log", Namespace: "a"}, authz.NoOpinion, ""},
		{"jane", "", authz.Attributes{Verb: "get", Group: "apps", Resource: "pods", Namespace: "a"}, authz.NoOpinion, ""},
		{"system:serviceaccount:a:bot", "", authz.Attributes{Verb: "list", Resource: "pods", Namespace: "a"}, authz.Allow, `RBAC: allowed by RoleBinding "rb/a" of Role "reader" to ServiceAccount "bot/a"`},
		{"x", "devs", authz.Attributes{Verb: "delete", Group: "apps", Resource: "deployments", Subresource: "x", Namespace: "b"}, authz.Allow, `RBAC: allowed by RoleBinding "rb/b" of ClusterRole "all" to Group "devs"`},
		{"x", "devs", authz.Attributes{Verb: "get", Path: "/version"}, authz.NoOpinion, ""},
		{"x", "everybody", authz.Attributes{Verb: "get", Path: "/livez/ping"}, authz.Allow, `RBAC: allowed by ClusterRoleBinding "h" of ClusterRole "health" to Group "everybody"`},
		{"x", "everybody", authz.Attributes{Verb: "post", Path: "/healthz"}, authz.NoOpinion, ""},
		{"x", "devs", authz.Attributes{Verb: "get", Namespace: "b"}, authz.Allow, `RBAC: allowed by RoleBinding "rb/b" of ClusterRole "all" to Group "devs"`},
		{"x", "devs", authz.Attributes{Verb: "get", Namespace: "b", NoResource: true}, authz.NoOpinion, ""},
		{"jane", "", authz.Attributes{Verb: "update", Group: "apps", Resource: "deployments", Subresource: "scale", Namespace: "z"}, authz.Allow, `RBAC: allowed by ClusterRoleBinding "s" of ClusterRole "scaler" to User "jane"`},
		{"jane", "", authz.Attributes{Verb: "update", Group: "apps", Resource: "deployments", Namespace: "z"}, authz.NoOpinion, ""},
		{"jane", "", authz.Attributes{Verb: "get", Resource: "secrets", Namespace: "z", Name: "s"}, authz.Allow, `RBAC: allowed by ClusterRoleBinding "o" of ClusterRole "one" to User "jane"`},
		{"jane", "", authz.Attributes{Verb: "get", Resource: "secrets", Namespace: "z", Name: "t"}, authz.NoOpinion, ""},
		{"jane", "", authz.Attributes{Verb: "get", Resource: "pods", Namespace: "c"}, authz.NoOpinion, `RBAC: role.rbac.authorization.k8s.io "gone" not found`},
	} {
		c.a.User, c.a.Explain = &authn.User{Name: c.user, Groups: strings.Fields(c.groups)}, true
		got, reason, err := r.Authorize(t.Context(), &c.a)
		if err != nil || got != c.want || reason != c.reason {
			t.Errorf("%s %+v: %d %q %v", c.user, c.a, got, reason, err)
		}
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	all := rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}
	for _, c := range []struct {
		name         string
		held, wanted []rbacv1.PolicyRule
		want         string
	}{
		{"nothing is held", nil, rules(pods("get", "list")), `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`},
		{"a part is held", rules(pods("get")), rules(pods("get", "list")), `{APIGroups:[""], Resources:["pods"], Verbs:["list"]}`},
		{"two rules cover one", rules(pods("get"), pods("list")), rules(pods("get", "list")), ""},
		{"everything is held", rules(all), rules(pods("*")), ""},
		{"a star is more than each verb", rules(pods("get", "list", "watch")), rules(pods("*")), `{APIGroups:[""], Resources:["pods"], Verbs:["*"]}`},
		{"names narrow", rules(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"p"}, Verbs: []string{"get"}}), rules(pods("get")), `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		{"resources are not paths", rules(all), rules(rbacv1.PolicyRule{NonResourceURLs: []string{"/x"}, Verbs: []string{"get"}}), `{NonResourceURLs:["/x"], Verbs:["get"]}`},
		{"a path's prefix", rules(rbacv1.PolicyRule{NonResourceURLs: []string{"/x*"}, Verbs: []string{"get"}}), rules(rbacv1.PolicyRule{NonResourceURLs: []string{"/x/*"}, Verbs: []string{"get"}}), ""},
		{"a subresource is not its resource", rules(pods("get")), rules(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}}), `{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}`},
	} {
		var got []string
		for _, m := range Missing(c.held, c.wanted) {
			got = append(got, Describe(m))
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

func BenchmarkAuthorize(b *testing.B) {
	s := state()
	for i := range 5000 {
		s.RoleBindings = append(s.RoleBindings, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("b", i)},
			RoleRef:    rbacv1.RoleRef{Kind: "Role", Name: "reader"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: fmt.Sprint("u", i)}},
		})
	}
	r := Authorizer{Source: fixed{NewIndex(s)}}
	a := &authz.Attributes{User: &authn.User{Name: "u4711", Groups: []string{"everybody", "x"}}, Verb: "list", Resource: "pods", Namespace: "a"}
	b.ReportAllocs()
	for b.Loop() {
		if d, _, _ := r.Authorize(b.Context(), a); d != authz.Allow {
			b.Fatal(d)
		}
	}
}

// TestHeldOnce has what a binding gives told once, by how many of its subjects a user may be one, and in the order of the bindings.
func TestHeldOnce(t *testing.T) {
	t.Parallel()
	role := func(name, resource string) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{resource}}}}
	}
	binding := func(name, role string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role}, Subjects: subjects}
	}
	jane, devs, ops := rbacv1.Subject{Kind: "User", Name: "jane"}, rbacv1.Subject{Kind: "Group", Name: "devs"}, rbacv1.Subject{Kind: "Group", Name: "ops"}
	x := NewIndex(State{
		ClusterRoles:        []*rbacv1.ClusterRole{role("pods", "pods"), role("secrets", "secrets")},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{binding("a", "pods", ops, devs), binding("b", "gone", devs), binding("c", "secrets", jane, devs, ops)},
	})
	rules, missing := x.RulesFor(&authn.User{Name: "jane", Groups: []string{"devs", "ops"}}, "")
	if len(rules) != 2 || rules[0].Resources[0] != "pods" || rules[1].Resources[0] != "secrets" || len(missing) != 1 {
		t.Errorf("%v, %v", rules, missing)
	}
}
