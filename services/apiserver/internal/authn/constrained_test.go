package authn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"howdah.dev/kit/rpc"
)

func TestConstrainedImpersonation(t *testing.T) {
	t.Parallel()
	gateway := rpc.WithUser(t.Context(), rpc.User{Name: "howdah:gateway", Groups: []string{GatewayGroup}})
	pod := Access{Verb: "get", Version: "v1", Resource: "pods", Namespace: "ns", Name: "p"}
	const on = "impersonate-on:%s:get pods/p"
	for _, tt := range []struct {
		name    string
		caller  []string
		as      []string
		allowed string
		groups  string // of whom the caller becomes; or the refusal
	}{
		{"a user", nil, []string{"howdah-as-user", "jane", "howdah-as-uid", "7", "howdah-as-group", "devs", "howdah-as-extra", "a.b%2Fc=x"},
			"impersonate-on:user-info:get pods/p;impersonate:user-info users/jane;impersonate:user-info uids/7;impersonate:user-info groups/devs;impersonate:user-info userextras/x", "devs system:authenticated"},
		{"a user, not on this", nil, []string{"howdah-as-user", "jane"}, "impersonate:user-info users/jane", "impersonate-on:user-info:get pods/p"},
		{"another user", nil, []string{"howdah-as-user", "joe"}, "impersonate-on:user-info:get pods/p;impersonate:user-info users/jane", "impersonate:user-info users/joe"},
		{"the old verb", nil, []string{"howdah-as-user", "joe"}, "impersonate users/joe", "system:authenticated"},
		{"a group too many", nil, []string{"howdah-as-user", "jane", "howdah-as-group", "ops"},
			"impersonate-on:user-info:get pods/p;impersonate:user-info users/jane;impersonate users/jane", "impersonate:user-info groups/ops"},
		{"masters", nil, []string{"howdah-as-user", "jane", "howdah-as-group", MastersGroup},
			"impersonate-on:user-info:get pods/p;impersonate:user-info users/jane;impersonate:user-info groups/system:masters", "impersonating the system:masters group is not allowed"},
		{"masters among groups", nil, []string{"howdah-as-user", "jane", "howdah-as-group", "devs", "howdah-as-group", MastersGroup},
			"impersonate-on:user-info:get pods/p;impersonate:user-info users/jane", "impersonating the system:masters group is not allowed"},
		{"a group without a name", nil, []string{"howdah-as-user", "jane", "howdah-as-group", ""},
			"impersonate-on:user-info:get pods/p;impersonate:user-info users/jane", "impersonating the empty string group is not allowed"},
		{"many groups", nil, []string{"howdah-as-user", "jane", "howdah-as-group", "a", "howdah-as-group", "b", "howdah-as-group", "c", "howdah-as-group", "d"},
			"impersonate-on:user-info:get pods/p;impersonate:user-info users/jane;impersonate:user-info groups/*", "a b c d system:authenticated"},
		{"many groups, one by one", nil, []string{"howdah-as-user", "jane", "howdah-as-group", "a", "howdah-as-group", "a", "howdah-as-group", "a", "howdah-as-group", "d"},
			"impersonate-on:user-info:get pods/p;impersonate:user-info users/jane;impersonate:user-info groups/a", "impersonate:user-info groups/d"},
		{"a key without a name", nil, []string{"howdah-as-user", "jane", "howdah-as-extra", "=x"},
			"impersonate-on:user-info:get pods/p;impersonate:user-info users/jane", "impersonating the empty string key in extra is not allowed"},
		{"a user whose name is nearly a node's", nil, []string{"howdah-as-user", "system%3Anode%3Aa%3Ab"},
			"impersonate-on:user-info:get pods/p;impersonate:user-info users/system:node:a:b", "system:authenticated"},
		{"a plain key", nil, []string{"howdah-as-user", "jane", "howdah-as-extra", "scopes=x"},
			"impersonate-on:user-info:get pods/p;impersonate:user-info users/jane;impersonate:user-info userextras/x", "must be a domain-prefixed path"},
		{"a service account", nil, []string{"howdah-as-user", "system%3Aserviceaccount%3Ans%3Asa"},
			"impersonate-on:serviceaccount:get pods/p;impersonate:serviceaccount serviceaccounts/sa", "system:serviceaccounts system:serviceaccounts:ns system:authenticated"},
		{"a service account with groups", nil, []string{"howdah-as-user", "system%3Aserviceaccount%3Ans%3Asa", "howdah-as-group", "g"},
			"impersonate-on:serviceaccount:get pods/p;impersonate:serviceaccount serviceaccounts/sa", "impersonate serviceaccounts/sa"},
		{"a node", nil, []string{"howdah-as-user", "system%3Anode%3An1"}, fmt.Sprintf(on, "arbitrary-node") + ";impersonate:arbitrary-node nodes/n1", "system:nodes system:authenticated"},
		{"a node that is not one's own", []string{"howdah-user", "system:serviceaccount:ns:agent", "howdah-extra", "authentication.kubernetes.io%2Fnode-name=n2"}, []string{"howdah-as-user", "system%3Anode%3An1"},
			fmt.Sprintf(on, "associated-node") + ";impersonate:associated-node nodes/*", fmt.Sprintf(on, "arbitrary-node")},
		{"one's own node", []string{"howdah-user", "system:serviceaccount:ns:agent", "howdah-extra", "authentication.kubernetes.io%2Fnode-name=n1"}, []string{"howdah-as-user", "system%3Anode%3An1"},
			fmt.Sprintf(on, "associated-node") + ";impersonate:associated-node nodes/*", "system:nodes system:authenticated"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			allowed := strings.Split(tt.allowed, ";")
			a := &Authenticator{MayImpersonate: func(_ context.Context, _ *User, want Access, refusal string) error {
				text := want.Verb + " " + want.Resource + "/" + want.Name
				if refusal != "" {
					return errors.New(refusal)
				}
				if !slices.Contains(allowed, text) {
					return errors.New(text)
				}
				return nil
			}}
			caller := tt.caller
			if caller == nil {
				caller = []string{"howdah-user", "boss"}
			}
			ctx := WithAsked(gateway, func() Access { return pod })
			user, err := a.Authenticate(metadata.NewIncomingContext(ctx, metadata.Pairs(append(caller, tt.as...)...)))
			if err != nil {
				if !strings.Contains(err.Error(), tt.groups) {
					t.Fatalf("got %v, want %s", err, tt.groups)
				}
				return
			}
			if got := strings.Join(user.Groups, " "); got != tt.groups {
				t.Errorf("became a member of %s", got)
			}
			var constraint string
			for _, one := range allowed {
				if verb, _, _ := strings.Cut(one, " "); strings.HasPrefix(verb, "impersonate:") {
					constraint = verb
				}
			}
			if user.Constraint != constraint {
				t.Errorf("by %q, want %q", user.Constraint, constraint)
			}
		})
	}
}

func TestTheModeOfBeforeIsTriedFirst(t *testing.T) {
	t.Parallel()
	ctx := WithAsked(rpc.WithUser(t.Context(), rpc.User{Name: "howdah:gateway", Groups: []string{GatewayGroup}}), func() Access { return Access{Verb: "get", Resource: "pods"} })
	a := &Authenticator{Modes: NewModes(), MayImpersonate: func(_ context.Context, _ *User, want Access, _ string) error {
		if want.Verb == "impersonate" && want.Name == "jane" {
			return nil
		}
		return errors.New(want.Verb)
	}}
	for _, c := range []struct{ caller, as, want string }{
		{"boss", "joe", "impersonate-on:user-info:get"}, {"boss", "jane", "<nil>"}, {"boss", "joe", "impersonate"}, {"other", "joe", "impersonate-on:user-info:get"},
	} {
		_, err := a.Authenticate(metadata.NewIncomingContext(ctx, metadata.Pairs("howdah-user", c.caller, "howdah-as-user", c.as)))
		if got := fmt.Sprint(err); got != c.want {
			t.Errorf("%s as %s: %s, want %s", c.caller, c.as, got, c.want)
		}
	}
}
