package authz

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
		"nobody's opinion is a refusal":   {Chain{fixed{reason: "a"}, fixed{reason: "b"}}, NoOpinion, "a\nb"},
		"an empty chain refuses":          {Chain{}, NoOpinion, ""},
		"everybody who is known may last": {Chain{Groups{"x"}, AlwaysAllow{}}, Allow, ""},
	} {
		got, reason, _ := c.chain.Authorize(t.Context(), &Attributes{User: &authn.User{Name: "u"}})
		if got != c.want || reason != c.reason {
			t.Errorf("%s: %d %q", name, got, reason)
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

// TestRefused is 403 where it was decided, and 500 where nobody could decide.
func TestRefused(t *testing.T) {
	t.Parallel()
	a := &Attributes{User: &authn.User{Name: "jane"}, Verb: "get", Resource: "pods", Namespace: "a", Name: "p"}
	if err := Refused(a, "/x", "no", nil); !apierrors.IsForbidden(err) || !strings.HasSuffix(err.Error(), `in the namespace "a": no`) {
		t.Error(err)
	}
	err := Refused(a, "/api/v1/namespaces/a/pods/p?x=<y>", "no", errors.New("it hangs"))
	if !apierrors.IsInternalError(err) || err.Error() != `Internal Server Error: "/api/v1/namespaces/a/pods/p?x=&lt;y&gt;": it hangs` {
		t.Error(err)
	}
}
