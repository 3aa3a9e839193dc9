package apiserver

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
		{f, n + "tokenreviews", "", `{"token":"nonsense"}`, `"status":{"user":{}}`},
	} {
		body, err := c.who.create(c.resource, c.namespace, `{"spec":`+c.spec+`}`)
		if err != nil || !strings.Contains(string(body), c.want) {
			t.Errorf("%s %s: %s %v", c.resource, c.spec, body, err)
		}
	}
	if _, err := jane.create(z+"subjectaccessreviews", "", `{"spec":{"user":"x"}}`); !apierrors.IsForbidden(err) {
		t.Errorf("jane reviews others: %v", err)
	}
	if _, err := f.create(z+"subjectaccessreviews", "", `{"spec":{"user":"x"}}`); !apierrors.IsInvalid(err) {
		t.Errorf("a review of nothing: %v", err)
	}
}
