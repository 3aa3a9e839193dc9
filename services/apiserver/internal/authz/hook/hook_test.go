package hook

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/remote"
)

// service answers with a text and keeps the questions.
type service struct {
	status string
	err    error
	asked  []string
}

func (s *service) Post(_ context.Context, question, answer runtime.Object, tried func(remote.Try)) error {
	text, _ := json.Marshal(question)
	s.asked = append(s.asked, string(text))
	tried(remote.Try{Code: 200, Err: s.err})
	if s.err != nil {
		return s.err
	}
	return json.Unmarshal([]byte(`{"status":`+s.status+`}`), answer)
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status string
		fails  error
		want   authz.Decision
		reason string
		err    bool
		asked  int // for two equal questions
	}{
		{`{"allowed":true,"reason":"yes"}`, nil, authz.Allow, "yes", false, 1},
		{`{"allowed":false,"reason":"who knows"}`, nil, authz.NoOpinion, "who knows", false, 1},
		{`{"allowed":false,"denied":true,"reason":"no"}`, nil, authz.Deny, "no", false, 1},
		{`{"allowed":true,"denied":true}`, nil, authz.Deny, "", true, 1},
		{`{}`, errors.New("gone"), authz.NoOpinion, "", true, 2},
	} {
		s := &service{status: c.status, err: c.fails}
		clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
		a, err := New(Config{Poster: s, Version: "v1", AuthorizedTTL: time.Minute, UnauthorizedTTL: 10 * time.Second, Clock: clk})
		if err != nil {
			t.Fatal(err)
		}
		what := &authz.Attributes{User: &authn.User{Name: "jane"}, Verb: "get", Resource: "pods", Namespace: "ns"}
		for range 2 {
			got, reason, err := a.Authorize(t.Context(), what)
			if got != c.want || reason != c.reason || (err != nil) != c.err {
				t.Errorf("%s: %d %q %v", c.status, got, reason, err)
			}
		}
		if len(s.asked) != c.asked {
			t.Errorf("%s: asked %d times", c.status, len(s.asked))
		}
		clk.Step(11 * time.Second)
		_, _, _ = a.Authorize(t.Context(), what)
		if again := len(s.asked) > c.asked; again == strings.HasPrefix(c.status, `{"allowed":true`) {
			t.Errorf("%s: after the shorter time, asked again: %v", c.status, again)
		}
	}
}

func TestWhatIsAsked(t *testing.T) {
	t.Parallel()
	user := &authn.User{Name: "jane", UID: "7", Groups: []string{"devs"}, Extra: map[string][]string{"k": {"v"}}}
	for _, c := range []struct {
		version string
		a       authz.Attributes
		want    string
	}{
		{"v1", authz.Attributes{Verb: "list", Group: "apps", Version: "v1", Resource: "deployments", Namespace: "ns", FieldSelector: "a=b,c!=d", LabelSelector: "x in (y),z"},
			`{"metadata":{},"spec":{"resourceAttributes":{"namespace":"ns","verb":"list","group":"apps","version":"v1",` +
				`"resource":"deployments","fieldSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]},{"key":"c","operator":"NotIn","values":["d"]}]},` +
				`"labelSelector":{"requirements":[{"key":"x","operator":"In","values":["y"]},{"key":"z","operator":"Exists"}]}},"user":"jane","groups":["devs"],"extra":{"k":["v"]},"uid":"7"},"status":{"allowed":false}}`},
		{"v1beta1", authz.Attributes{Verb: "get", Path: "/metrics"}, `"nonResourceAttributes":{"path":"/metrics","verb":"get"}`},
		{"v1beta1", authz.Attributes{Verb: "get", Path: "/metrics"}, `"group":["devs"]`},
	} {
		s := &service{status: `{"allowed":true}`}
		a, err := New(Config{Poster: s, Version: c.version, Clock: clocktesting.NewFakeClock(time.Unix(1e9, 0))})
		if err != nil {
			t.Fatal(err)
		}
		c.a.User = user
		if _, _, err := a.Authorize(t.Context(), &c.a); err != nil || !strings.Contains(s.asked[0], c.want) {
			t.Errorf("%v\n%s\nlacks\n%s", err, s.asked[0], c.want)
		}
		if _, _, err := a.Authorize(t.Context(), &c.a); err != nil || len(s.asked) != 2 {
			t.Errorf("without a time to live, asked %d times", len(s.asked))
		}
	}
	if _, err := New(Config{Version: "v2"}); err == nil {
		t.Error("an unknown version")
	}
}

func TestMatchConditions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, expression string
		deny             bool // where the webhook cannot be asked
		status           string
		fails            error
		want             authz.Decision
		asked            int
	}{
		{"matches", "request.user == 'jane' && request.resourceAttributes.namespace == 'ns'", false, `{"allowed":true}`, nil, authz.Allow, 1},
		{"does not match", "request.user == 'joe'", true, `{"allowed":true}`, nil, authz.NoOpinion, 0},
		{"cannot be evaluated", "request.nonResourceAttributes.path == '/x'", false, `{"allowed":true}`, nil, authz.NoOpinion, 0},
		{"cannot be evaluated, and must be", "request.nonResourceAttributes.path == '/x'", true, `{"allowed":true}`, nil, authz.Deny, 0},
		{"cannot be asked", "true", false, "", errors.New("gone"), authz.NoOpinion, 1},
		{"cannot be asked, and must be", "true", true, "", errors.New("gone"), authz.Deny, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			matcher, errs := validation.ValidateAndCompileMatchConditions(authorizationcel.NewDefaultCompiler(), []apiserver.WebhookMatchCondition{{Expression: c.expression}})
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			s, registry := &service{status: c.status, err: c.fails}, prometheus.NewRegistry()
			a, err := New(Config{
				Poster: s, Version: "v1", Name: "policy", Matches: matcher, DenyOnError: c.deny, Clock: clocktesting.NewFakeClock(time.Unix(1e9, 0)), Metrics: NewMetrics(registry),
			})
			if err != nil {
				t.Fatal(err)
			}
			got, _, _ := a.Authorize(t.Context(), &authz.Attributes{User: &authn.User{Name: "jane"}, Verb: "get", Resource: "pods", Namespace: "ns"})
			if got != c.want || len(s.asked) != c.asked {
				t.Errorf("decided %d, asked %d times", got, len(s.asked))
			}
		})
	}
}
