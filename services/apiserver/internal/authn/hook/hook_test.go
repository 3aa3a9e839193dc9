package hook

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/remote"
)

// service answers with a text and counts the questions.
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

func TestVerify(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, status string
		fails        error
		audiences    []string
		user, err    string
		meant        []string
		asked        int // for two equal tokens
	}{
		{"known", `{"authenticated":true,"user":{"username":"jane","uid":"7","groups":["devs"],"extra":{"k":["v"]}}}`, nil, []string{"api"}, "jane", "", []string{"api"}, 1},
		{"known for an audience", `{"authenticated":true,"user":{"username":"jane"},"audiences":["x","z"]}`, nil, []string{"x", "y"}, "jane", "", []string{"x"}, 1},
		{"known for others", `{"authenticated":true,"user":{"username":"jane"},"audiences":["z"]}`, nil, []string{"x"}, "", authn.ErrNotMine.Error(), nil, 1},
		{"known for the API, asked for another", `{"authenticated":true,"user":{"username":"jane"}}`, nil, []string{"x"}, "", authn.ErrNotMine.Error(), nil, 1},
		{"unknown", `{"authenticated":false}`, nil, []string{"api"}, "", authn.ErrNotMine.Error(), nil, 1},
		{"bad", `{"authenticated":false,"error":"it is too old"}`, nil, []string{"api"}, "", "it is too old", nil, 2},
		{"bad, and for others", `{"authenticated":false,"error":"it is too old","audiences":["z"]}`, nil, []string{"api"}, "", authn.ErrNotMine.Error(), nil, 1},
		{"known for several", `{"authenticated":true,"user":{"username":"jane"},"audiences":["z","y","x"]}`, nil, []string{"x", "y"}, "jane", "", []string{"y", "x"}, 1},
		{"not asked", `{}`, errors.New("gone"), []string{"api"}, "", "gone", nil, 2},
	} {
		s := &service{status: c.status, err: c.fails}
		clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
		v, err := New(Config{Poster: s, Version: "v1", TTL: time.Minute, Audiences: []string{"api"}, Clock: clk})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			user, meant, err := v.Verify(t.Context(), "secret", c.audiences)
			switch {
			case c.user == "":
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%s: %v %v", c.name, user, err)
				}
			case err != nil || user.Name != c.user || !slices.Equal(meant, c.meant):
				t.Errorf("%s: %v %v %v", c.name, user, meant, err)
			}
			if user != nil {
				user.Groups = append(user.Groups, "system:masters") // must not stay
			}
		}
		if user, _, err := v.Verify(t.Context(), "secret", c.audiences); err == nil && user.In("system:masters") {
			t.Errorf("%s: the remembered user is shared", c.name)
		}
		if want := 2*c.asked - 1; len(s.asked) != want { // a failure is asked for every time
			t.Errorf("%s: asked %d times", c.name, len(s.asked))
		}
		before := len(s.asked)
		clk.Step(time.Minute + time.Second)
		if _, _, _ = v.Verify(t.Context(), "secret", c.audiences); len(s.asked) != before+1 {
			t.Errorf("%s: the answer holds for ever", c.name)
		}
		if !strings.Contains(s.asked[0], `"token":"secret"`) {
			t.Errorf("%s: %s", c.name, s.asked[0])
		}
	}
	if _, err := New(Config{Version: "v2"}); err == nil {
		t.Error("an unknown version")
	}
}
