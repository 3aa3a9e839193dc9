package seal

import "testing"

func TestLaterEntriesMustCount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		earlier rules
		name    string
		want    string
	}{
		{rules{"*.*"}, "secrets", `resource "secrets" is masked by earlier rule "*.*"`},
		{rules{"configmaps", "*.apps"}, "deployments.apps", `resource "deployments.apps" is masked by earlier rule "*.apps"`},
		{rules{"*."}, "secrets", `resource "secrets" is masked by earlier rule "*."`},
		{rules{"secrets"}, "secrets", `resource "secrets" is masked by earlier rule "secrets"`},
		{rules{"*.apps", "secrets"}, "*.*", ""},
		{rules{"*."}, "deployments.apps", ""},
		{rules{"secrets"}, "configmaps", ""},
	} {
		got := ""
		if err := c.earlier.masks(c.name); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s after %s: %q", c.name, c.earlier, got)
		}
	}
}
