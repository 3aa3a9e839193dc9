package apiserver

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// second drops what came with an error.
func second(_ []byte, err error) error { return err }

const rbacGroup = "rbac.authorization.k8s.io/v1/"

// as returns the fixture with another caller.
func (f *fixture) as(name string, groups ...string) *fixture {
	conn := f.dial(rpc.User{Name: name, Groups: groups})
	other := *f
	other.api, other.docs = apiv1.NewObjectServiceClient(conn), apiv1.NewDiscoveryServiceClient(conn)
	return &other
}

func TestRBAC(t *testing.T) {
	t.Parallel()
	f := startMemory(t, func(c *Config) { c.AuthorizationModes = []string{"Node", "RBAC"} })
	jane := f.as("jane", "devs")
	list := func(who *fixture, resource, namespace string) error {
		g, v, r := split(resource)
		_, err := who.list(&apiv1.ListRequest{Group: g, Version: v, Resource: r, Namespace: namespace})
		return err
	}
	must := func(_ []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	refused := func(err error, text string) {
		t.Helper()
		if !apierrors.IsForbidden(err) || err.Error() != text {
			t.Errorf("got %v\nwant %s", err, text)
		}
	}
	refused(list(jane, "v1/pods", "default"), `pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default"`)
	refused(list(jane, "apps/v1/deployments", ""), `deployments.apps is forbidden: User "jane" cannot list resource "deployments" in API group "apps" at the cluster scope`)

	for _, role := range []string{"admin", "view"} { // of which the aggregation controller makes what is bound usually
		must(f.create(rbacGroup+"rolebindings", "default", `{"metadata":{"name":"`+role+`"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole",`+
			`"name":"system:aggregate-to-`+role+`"},"subjects":[{"kind":"User","name":"jane"}]}`))
	}
	if err := f.server.cache.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := list(jane, "v1/pods", "default"); err != nil {
		t.Errorf("an admin of the namespace: %v", err)
	}
	refused(list(jane, "v1/pods", "kube-system"), `pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "kube-system"`)

	_, err := jane.create(rbacGroup+"roles", "default", `{"metadata":{"name":"r"},"rules":[{"apiGroups":["apiextensions.k8s.io"],"resources":["x"],"verbs":["get","list"]}]}`)
	refused(err, `roles.rbac.authorization.k8s.io "r" is forbidden: user "jane" (groups=["devs" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:`+
		"\n"+`{APIGroups:["apiextensions.k8s.io"], Resources:["x"], Verbs:["get" "list"]}`)
	must(jane.create(rbacGroup+"roles", "default", `{"metadata":{"name":"r"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`))
	_, err = jane.create(rbacGroup+"rolebindings", "default", `{"metadata":{"name":"b"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"User","name":"jane"}]}`)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `{APIGroups:["*"], Resources:["*"], Verbs:["*"]}`) {
		t.Errorf("binding oneself to cluster-admin: %v", err)
	}

	// The ingress controller follows what it routes, and writes nothing but status, events and its own Lease.
	edge := f.as("howdah:ingress", "howdah:ingresses")
	for _, resource := range []string{"networking.k8s.io/v1/ingresses", "networking.k8s.io/v1/ingressclasses", "v1/services", "v1/secrets", "v1/nodes", "v1/configmaps", "v1/namespaces", "apiextensions.k8s.io/v1/customresourcedefinitions", "discovery.k8s.io/v1/endpointslices"} {
		if err := list(edge, resource, ""); err != nil {
			t.Errorf("the ingress controller and %s: %v", resource, err)
		}
	}
	for _, resource := range []string{"v1/pods", "v1/serviceaccounts"} {
		if err := list(edge, resource, ""); !apierrors.IsForbidden(err) {
			t.Errorf("the ingress controller and %s: %v", resource, err)
		}
	}
	must(edge.create("coordination.k8s.io/v1/leases", "kube-system", `{"metadata":{"name":"howdah-ingress"}}`))
	must(edge.get("coordination.k8s.io/v1/leases", "kube-system", "howdah-ingress"))
	must(edge.create("v1/events", "default", `{"metadata":{"name":"e"},"involvedObject":{"kind":"Ingress","namespace":"default","name":"i"}}`))
	for _, err := range []error{
		second(edge.get("coordination.k8s.io/v1/leases", "kube-system", "other")), second(edge.create("coordination.k8s.io/v1/leases", "default", `{"metadata":{"name":"x"}}`)),
		second(edge.get("v1/secrets", "default", "x")), second(edge.create("networking.k8s.io/v1/ingresses", "default", `{"metadata":{"name":"x"}}`)),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("beyond its role: %v", err)
		}
	}

	// A node reads what its pods refer to, and nothing else.
	node := f.as("system:node:n1", "system:nodes")
	must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	must(f.create("v1/secrets", "default", `{"metadata":{"name":"mine"}}`))
	must(f.create("v1/secrets", "default", `{"metadata":{"name":"other"}}`))
	must(f.create("v1/pods", "default", `{"metadata":{"name":"p"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i","envFrom":[{"secretRef":{"name":"mine"}}]}]}}`))
	if err := f.server.cache.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(node.get("v1/secrets", "default", "mine"))
	_, err = node.get("v1/secrets", "default", "other")
	refused(err, `secrets "other" is forbidden: User "system:node:n1" cannot get resource "secrets" in API group "" in the namespace "default": no relationship found between node 'n1' and this object`)
	if err := list(node, "v1/secrets", "default"); !apierrors.IsForbidden(err) {
		t.Errorf("a node lists secrets: %v", err)
	}

	// What was taken from a role comes back at the next start; nothing more is to be done now.
	if body, err := f.get(rbacGroup+"clusterroles", "", "system:discovery"); err != nil || !strings.Contains(string(body), `"rbac.authorization.kubernetes.io/autoupdate":"true"`) ||
		!strings.Contains(string(body), `"kubernetes.io/bootstrapping":"rbac-defaults"`) {
		t.Errorf("%s %v", body, err)
	}
}
