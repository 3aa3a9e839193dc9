package authn

import (
	"maps"
	"testing"
)

// The audit log is told of a credential, whomever its owner acts as.
func TestAnnotate(t *testing.T) {
	t.Parallel()
	account := &User{Name: "system:serviceaccount:a:b", Annotations: map[string]string{"credential": "old"}}
	for name, tt := range map[string]struct {
		user *User
		want map[string]string
	}{
		"nobody":          {nil, map[string]string{}},
		"itself":          {account, map[string]string{"credential": "old"}},
		"as another":      {&User{Name: "jane", Impersonator: account}, map[string]string{"credential": "old"}},
		"without a story": {&User{Name: "jane"}, map[string]string{}},
	} {
		got := map[string]string{}
		tt.user.Annotate(func(key, value string) { got[key] = value })
		if !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
