package abac

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
)

func load(t *testing.T, text string) (Policies, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path)
}

const file = `# people
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"alice","namespace":"*","resource":"*","apiGroup":"*"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"bob","namespace":"projectCaribou","resource":"pods","readonly":true}}

{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"*","readonly":true,"nonResourcePath":"/api*"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"ops","user":"carol","namespace":"*","resource":"nodes"}}
{"user":"old","resource":"pods"}
{"user":"older"}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"namespace":"*","resource":"*","apiGroup":"*"}}
`

func TestAuthorize(t *testing.T) {
	t.Parallel()
	all, err := load(t, file)
	if err != nil {
		t.Fatal(err)
	}
	res := func(verb, group, resource, namespace string) authz.Attributes {
		return authz.Attributes{Verb: verb, Group: group, Resource: resource, Namespace: namespace}
	}
	for _, c := range []struct {
		user, group string
		a           authz.Attributes
		want        authz.Decision
	}{
		{"alice", "", res("delete", "apps", "deployments", "x"), authz.Allow},
		{"alice", "", authz.Attributes{Verb: "post", Path: "/api"}, authz.NoOpinion},
		{"bob", "", res("get", "", "pods", "projectCaribou"), authz.Allow},
		{"bob", "", res("update", "", "pods", "projectCaribou"), authz.NoOpinion},
		{"bob", "", res("get", "", "pods", "default"), authz.NoOpinion},
		{"bob", "", res("get", "apps", "pods", "projectCaribou"), authz.NoOpinion},
		{"anybody", "system:authenticated", authz.Attributes{Verb: "get", Path: "/apis/x"}, authz.Allow},
		{"anybody", "", authz.Attributes{Verb: "get", Path: "/apis/x"}, authz.NoOpinion},
		{"carol", "ops", res("get", "", "nodes", ""), authz.Allow},
		{"carol", "", res("get", "", "nodes", ""), authz.NoOpinion},
		{"dave", "ops", res("get", "", "nodes", ""), authz.NoOpinion},
		{"old", "", res("delete", "apps", "pods", "x"), authz.Allow},
		{"old", "", authz.Attributes{Verb: "get", Path: "/x"}, authz.NoOpinion},
		{"older", "", authz.Attributes{Verb: "get", Path: "/x"}, authz.Allow},
	} {
		c.a.User = &authn.User{Name: c.user, Groups: strings.Fields(c.group)}
		got, reason, err := all.Authorize(t.Context(), &c.a)
		if got != c.want || err != nil || (reason == "No policy matched.") != (c.want == authz.NoOpinion) {
			t.Errorf("%s %+v: %d %q %v", c.user, c.a, got, reason, err)
		}
	}
	rules, incomplete, err := all.RulesFor(t.Context(), &authn.User{Name: "bob", Groups: []string{"system:authenticated"}}, "projectCaribou")
	if len(rules) != 2 || incomplete || err != nil || rules[0].Resources[0] != "pods" || rules[1].NonResourceURLs[0] != "/api*" {
		t.Error(rules, incomplete, err)
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\n{": "line 2",
		`{"apiVersion":"abac.authorization.kubernetes.io/v2","kind":"Policy"}`: "unrecognized object",
		`[]`: "cannot unmarshal",
	} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Load("/nonexistent"); err == nil {
		t.Error("a file that is not there")
	}
}
