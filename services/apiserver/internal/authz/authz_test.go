package authz

import (
	"context"
	"errors"
	"strings"
	"testing"

	"howdah.dev/services/apiserver/internal/authn"
)

type fixed struct {
	decision Decision
	reason   string
	err      error
}

func (f fixed) Authorize(context.Context, *Attributes) (Decision, string, error) {
	return f.decision, f.reason, f.err
}

func TestChain(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		chain  Chain
		want   Decision
		reason string
	}{
		"the first opinion decides":       {Chain{fixed{}, fixed{decision: Deny, reason: "no"}, fixed{decision: Allow}}, Deny, "no"},
		"an error is no opinion":          {Chain{fixed{err: broken}, fixed{decision: Allow}}, Allow, ""},
		"nobody's opinion is a refusal":   {Chain{fixed{reason: "a"}, fixed{reason: "b"}}, NoOpinion, "a, b"},
		"an empty chain refuses":          {Chain{}, NoOpinion, ""},
		"everybody who is known may last": {Chain{Groups{"x"}, Node{}, AlwaysAllow{}}, Allow, ""},
	} {
		got, reason, _ := c.chain.Authorize(t.Context(), &Attributes{User: &authn.User{Name: "u"}})
		if got != c.want || reason != c.reason {
			t.Errorf("%s: %d %q", name, got, reason)
		}
	}
}

func TestNode(t *testing.T) {
	t.Parallel()
	node := &authn.User{Name: "system:node:n1", Groups: []string{authn.NodesGroup}}
	for _, c := range []struct {
		a    Attributes
		want Decision
	}{
		{Attributes{Verb: "get", Resource: "secrets", Namespace: "x", Name: "y"}, Allow},
		{Attributes{Verb: "watch", Resource: "pods"}, Allow},
		{Attributes{Verb: "list", Group: "apps", Resource: "deployments"}, Deny},
		{Attributes{Verb: "update", Resource: "nodes", Subresource: "status", Name: "n1"}, Allow},
		{Attributes{Verb: "update", Resource: "nodes", Subresource: "status", Name: "n2"}, Deny},
		{Attributes{Verb: "delete", Resource: "nodes", Name: "n1"}, Deny},
		{Attributes{Verb: "patch", Resource: "pods", Subresource: "status", Name: "p"}, Allow},
		{Attributes{Verb: "patch", Resource: "pods", Name: "p"}, Deny},
		{Attributes{Verb: "create", Resource: "pods", Subresource: "exec", Name: "p"}, Deny},
		{Attributes{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-node-lease", Name: "n1"}, Allow},
		{Attributes{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-system", Name: "n1"}, Deny},
		{Attributes{Verb: "create", Resource: "secrets", Namespace: "x"}, Deny},
	} {
		c.a.User = node
		if got, reason, _ := (Node{}).Authorize(t.Context(), &c.a); got != c.want {
			t.Errorf("%s %s/%s %s: %d %s", c.a.Verb, c.a.Resource, c.a.Subresource, c.a.Name, got, reason)
		}
		c.a.User = &authn.User{Name: "system:node:n1"} // the name alone makes no node
		if got, _, _ := (Node{}).Authorize(t.Context(), &c.a); got != NoOpinion {
			t.Errorf("the name alone: %d", got)
		}
	}
}

func TestForbiddenText(t *testing.T) {
	t.Parallel()
	err := Forbidden(&Attributes{User: &authn.User{Name: "jane"}, Verb: "get", Resource: "pods", Subresource: "log", Namespace: "ns", Name: "p"}, "why")
	if want := `pods "p" is forbidden: User "jane" cannot get resource "pods/log" in API group "" in the namespace "ns": why`; err.Error() != want {
		t.Errorf("%s, wanted %s", err, want)
	}
	err = Forbidden(&Attributes{User: &authn.User{Name: "jane"}, Verb: "list", Group: "apps", Resource: "deployments"}, "")
	if !strings.HasSuffix(err.Error(), `cannot list resource "deployments" in API group "apps" at the cluster scope`) {
		t.Error(err)
	}
}
