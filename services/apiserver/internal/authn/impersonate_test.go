package authn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/rpc"
)

func TestImpersonation(t *testing.T) {
	t.Parallel()
	gateway := rpc.WithUser(t.Context(), rpc.User{Name: "howdah:gateway", Groups: []string{GatewayGroup}})
	for _, tt := range []struct {
		name  string
		md    []string
		want  *User // nil is the error
		asked string
		err   string
	}{
		{"nobody else", nil, &User{Name: "boss", Groups: []string{"system:authenticated"}}, "", ""},
		{"a user", []string{"howdah-as-user", "j%C3%BCrgen"}, &User{Name: "jürgen", Groups: []string{"system:authenticated"}}, "users//jürgen", ""},
		{"a user with everything", []string{"howdah-as-user", "jane", "howdah-as-group", "devs", "howdah-as-uid", "7", "howdah-as-extra", "a.b%2Fc=x", "howdah-as-extra", "a.b%2Fc=y"},
			&User{Name: "jane", UID: "7", Groups: []string{"devs", "system:authenticated"}, Extra: map[string][]string{"a.b/c": {"x", "y"}}},
			"users//jane uids//7 groups//devs userextras/a.b/c/x userextras/a.b/c/y", ""},
		{"a service account", []string{"howdah-as-user", "system%3Aserviceaccount%3Ans%3Asa"},
			&User{Name: "system:serviceaccount:ns:sa", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"}}, "serviceaccounts//sa@ns", ""},
		{"a service account with groups of the caller's choice", []string{"howdah-as-user", "system%3Aserviceaccount%3Ans%3Asa", "howdah-as-group", "g"},
			&User{Name: "system:serviceaccount:ns:sa", Groups: []string{"g", "system:authenticated"}}, "serviceaccounts//sa@ns groups//g", ""},
		{"anonymous", []string{"howdah-as-user", "system%3Aanonymous"}, &User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}, "users//system:anonymous", ""},
		{"unauthenticated", []string{"howdah-as-user", "x", "howdah-as-group", "system%3Aunauthenticated"},
			&User{Name: "x", Groups: []string{"system:unauthenticated"}}, "users//x groups//system:unauthenticated", ""},
		{"a group alone", []string{"howdah-as-group", "devs"}, nil, "", `requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"devs"}, Extra:map[string][]string(nil)} without impersonating a user name`},
		{"a malformed extra", []string{"howdah-as-user", "x", "howdah-as-extra", "%zz"}, nil, "", "impersonation:"},
		{"one who may not be", []string{"howdah-as-user", "root"}, nil, "users//root", `users "root" is forbidden: no`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			a := &Authenticator{MayImpersonate: func(_ context.Context, user *User, as Access, _ string) error {
				if user.Name != "boss" {
					return fmt.Errorf("%s asks", user.Name)
				}
				text := as.Resource + "/" + as.Subresource + "/" + as.Name
				if as.Namespace != "" {
					text += "@" + as.Namespace
				}
				if asked = append(asked, text); as.Name == "root" {
					return apierrors.NewForbidden(schema.GroupResource{Resource: as.Resource}, as.Name, errors.New("no"))
				}
				return nil
			}}
			md := metadata.Pairs(append([]string{"howdah-user", "boss"}, tt.md...)...)
			user, err := a.Authenticate(metadata.NewIncomingContext(gateway, md))
			if got := strings.Join(asked, " "); got != tt.asked {
				t.Errorf("asked for %q", got)
			}
			if tt.want == nil {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v %v", user, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(tt.md) > 0 && (user.Impersonator == nil || user.Impersonator.Name != "boss") {
				t.Errorf("the impersonator is %v", user.Impersonator)
			}
			got := *user
			got.Impersonator = nil
			if diff := cmp.Diff(*tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
