package apiserver

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

func TestReviews(t *testing.T) {
	t.Parallel()
	f := startMemory(t, func(c *Config) { c.AuthorizationModes = []string{"Node", "RBAC"} })
	jane := f.as("jane", "devs")
	const z, n = "authorization.k8s.io/v1/", "authentication.k8s.io/v1/"
	for _, c := range []struct {
		who                             *fixture
		resource, namespace, spec, want string
	}{
		{jane, z + "selfsubjectaccessreviews", "", `{"resourceAttributes":{"verb":"list","resource":"pods","namespace":"default"}}`, `"allowed":false`},
		{f, z + "selfsubjectaccessreviews", "", `{"resourceAttributes":{"verb":"list","resource":"pods","namespace":"default"}}`, `"allowed":true`},
		{jane, z + "selfsubjectaccessreviews", "", `{"nonResourceAttributes":{"verb":"get","path":"/version"}}`, `RBAC: allowed by ClusterRoleBinding \"system:discovery\" of ClusterRole \"system:discovery\" to Group \"system:authenticated\"`},
		{f, z + "subjectaccessreviews", "", `{"user":"system:kube-scheduler","resourceAttributes":{"verb":"create","resource":"pods","subresource":"binding","namespace":"x"}}`, `"allowed":true`},
		{f, z + "localsubjectaccessreviews", "default", `{"user":"jane","resourceAttributes":{"verb":"get","resource":"pods","namespace":"default"}}`, `"allowed":false`},
		{jane, z + "selfsubjectrulesreviews", "", `{"namespace":"default"}`, `"resources":["selfsubjectaccessreviews","selfsubjectrulesreviews"]`},
		{jane, n + "selfsubjectreviews", "", `{}`, `"userInfo":{"username":"jane","groups":["devs","system:authenticated"]}`},
		{jane, z + "selfsubjectaccessreviews", "", `{"resourceAttributes":{"verb":"list","resource":"pods","fieldSelector":{"requirements":[{"key":"a","operator":"Exists"}]}}}`, `"evaluationError":"spec.resourceAttributes.fieldSelector ignored due to parse error"`},
		{jane, z + "selfsubjectaccessreviews", "", `{"resourceAttributes":{"verb":"list","resource":"pods","labelSelector":{"requirements":[{"key":"a","operator":"Exists"},{"key":"a","operator":"Gt"}]}}}`, `"evaluationError":"spec.resourceAttributes.labelSelector partially ignored due to parse error"`},
		{f, z + "subjectaccessreviews", "", `{"user":"system:node:n1","groups":["system:nodes"],"resourceAttributes":{"verb":"list","resource":"pods","fieldSelector":{"rawSelector":"spec.nodeName=n1"}}}`, `"allowed":true`},
		{f, z + "subjectaccessreviews", "", `{"user":"system:node:n1","groups":["system:nodes"],"resourceAttributes":{"verb":"list","resource":"pods","fieldSelector":{"requirements":[{"key":"spec.nodeName","operator":"In","values":["n1"]}]}}}`, `"allowed":true`},
		{f, z + "subjectaccessreviews", "", `{"user":"system:node:n1","groups":["system:nodes"],"resourceAttributes":{"verb":"list","resource":"pods","labelSelector":{"rawSelector":"a in (b)"}}}`, `"reason":"can only list/watch pods with spec.nodeName field selector"`},
		{f, n + "tokenreviews", "", `{"token":"nonsense"}`, `"status":{"user":{},"error":"invalid bearer token"}`},
	} {
		body, err := c.who.create(c.resource, c.namespace, `{"spec":`+c.spec+`}`)
		if err != nil || !strings.Contains(string(body), c.want) {
			t.Errorf("%s %s: %s %v", c.resource, c.spec, body, err)
		}
	}
	if _, err := jane.create(z+"subjectaccessreviews", "", `{"spec":{"user":"x"}}`); !apierrors.IsForbidden(err) {
		t.Errorf("jane reviews others: %v", err)
	}
	const resource = `"resourceAttributes":{"verb":"get","resource":"pods"`
	for name, c := range map[string]struct{ resource, namespace, body, want string }{
		"of nothing":            {"subjectaccessreviews", "", `{"spec":{"user":"x"}}`, "exactly one of nonResourceAttributes or resourceAttributes must be specified"},
		"of nobody":             {"subjectaccessreviews", "", `{"spec":{` + resource + `}}}`, "at least one of user or group must be specified"},
		"of both":               {"selfsubjectaccessreviews", "", `{"spec":{` + resource + `},"nonResourceAttributes":{"verb":"get","path":"/"}}}`, "cannot be specified in combination with resourceAttributes"},
		"with a name":           {"selfsubjectaccessreviews", "", `{"metadata":{"name":"x"},"spec":{` + resource + `}}}`, "must be empty"},
		"of another namespace":  {"localsubjectaccessreviews", "default", `{"spec":{"user":"x",` + resource + `,"namespace":"other"}}}`, "must match metadata.namespace"},
		"of a path locally":     {"localsubjectaccessreviews", "default", `{"spec":{"user":"x","nonResourceAttributes":{"verb":"get","path":"/"}}}`, "disallowed on this kind of request"},
		"with two selectors":    {"selfsubjectaccessreviews", "", `{"spec":{` + resource + `,"fieldSelector":{"rawSelector":"a=b","requirements":[{"key":"a","operator":"In","values":["b"]}]}}}}`, "may not specified at the same time as requirements"},
		"with no selector":      {"selfsubjectaccessreviews", "", `{"spec":{` + resource + `,"labelSelector":{}}}}`, "requirements or rawSelector is required"},
		"with In and no values": {"selfsubjectaccessreviews", "", `{"spec":{` + resource + `,"labelSelector":{"requirements":[{"key":"a","operator":"In"}]}}}}`, "must be specified when `operator` is 'In' or 'NotIn'"},
	} {
		if _, err := f.create(z+c.resource, c.namespace, c.body); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.create(n+"tokenreviews", "", `{"spec":{}}`); !apierrors.IsBadRequest(err) || err.Error() != "token is required for TokenReview in authentication" {
		t.Errorf("no token: %v", err)
	}
	if _, err := f.get(n+"tokenreviews", "", "x"); !apierrors.IsNotFound(err) || err.Error() != "the server could not find the requested resource" {
		t.Errorf("another verb: %v", err)
	}
}

func TestImpersonatedRequests(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"bot"}}`))
	f.must(f.create(rbacGroup+"clusterroles", "", `{"metadata":{"name":"actor"},"rules":[{"apiGroups":[""],"resources":["users"],"resourceNames":["jane"],"verbs":["impersonate"]}]}`))
	f.must(f.create(rbacGroup+"clusterrolebindings", "", `{"metadata":{"name":"actor"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"actor"},"subjects":[{"kind":"User","name":"joe"}]}`))
	f.must(f.create(rbacGroup+"rolebindings", "default", `{"metadata":{"name":"edit"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"system:aggregate-to-edit"},"subjects":[{"kind":"User","name":"joe"}]}`))
	refused := func(mode string) string {
		return `selfsubjectreviews.authentication.k8s.io is forbidden: User "joe" cannot impersonate-on:` + mode +
			`:create resource "selfsubjectreviews" in API group "authentication.k8s.io" at the cluster scope`
	}
	gateway := apiv1.NewObjectServiceClient(f.dial(rpc.User{Name: "howdah:gateway", Groups: []string{"howdah:gateways"}}))
	for _, c := range []struct {
		as   []string
		want string
	}{
		{[]string{"howdah-as-user", "root"}, refused("user-info")},
		{[]string{"howdah-as-user", "jane", "howdah-as-group", "system%3Amasters"}, refused("user-info")},
		{[]string{"howdah-as-user", "jane", "howdah-as-uid", "1"}, refused("user-info")},
		{[]string{"howdah-as-user", "jane", "howdah-as-extra", "scopes=view"}, refused("user-info")},
		{[]string{"howdah-as-user", "system%3Aserviceaccount%3Akube-system%3Abot"}, refused("serviceaccount")},
		{[]string{"howdah-as-user", "jane"}, `"username":"jane"`},
		{[]string{"howdah-as-user", "system%3Aserviceaccount%3Adefault%3Abot"}, `"username":"system:serviceaccount:default:bot"`},                              // edit may
		{[]string{"howdah-as-user", "root"}, `users "root" is forbidden: User "joe" cannot impersonate resource "users" in API group "" at the cluster scope`}, // the verb that worked before is tried first
	} {
		ctx := metadata.NewOutgoingContext(f.ctx, metadata.Pairs(append([]string{"howdah-user", "joe"}, c.as...)...))
		ask := func() string {
			resp, err := gateway.Create(ctx, &apiv1.CreateRequest{Group: "authentication.k8s.io", Version: "v1", Resource: "selfsubjectreviews", Object: []byte(`{}`)})
			return string(resp.GetObject()) + status(err).Message
		}
		got := ask()
		// The roles are in force a moment after they were made.
		for deadline := time.Now().Add(time.Minute); !strings.Contains(got, c.want) && time.Now().Before(deadline); got = ask() {
			time.Sleep(5 * time.Millisecond)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%v: %s", c.as, got)
		}
	}
}

// TestReviewsElsewhere asks for what is only created where it is not: of a namespace in none, and of none in one.
func TestReviewsElsewhere(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	for _, tt := range []struct {
		resource, namespace string
		code                int32
	}{
		{"v1/bindings", "", 404},
		{"v1/bindings", "default", 405},
		{"authorization.k8s.io/v1/selfsubjectaccessreviews", "", 405},
		{"authorization.k8s.io/v1/selfsubjectaccessreviews", "default", 404},
		{"authorization.k8s.io/v1/localsubjectaccessreviews", "", 404},
		{"authentication.k8s.io/v1/tokenreviews", "default", 404},
	} {
		group, version, resource := split(tt.resource)
		if _, err := f.list(&apiv1.ListRequest{Group: group, Version: version, Resource: resource, Namespace: tt.namespace}); apistatus.Of(err).Code != tt.code {
			t.Errorf("list %s in %q: %v, want %d", tt.resource, tt.namespace, err, tt.code)
		}
		if tt.code != 404 {
			continue
		}
		if _, err := f.create(tt.resource, tt.namespace, `{"metadata":{"name":"a"}}`); apistatus.Of(err).Code != 404 {
			t.Errorf("create %s in %q: %v", tt.resource, tt.namespace, err)
		}
	}
}
