package verify

import (
	"strings"
	"testing"
)

func TestRules(t *testing.T) {
	t.Parallel()
	listed := func(list ...string) Options { return Options{NeverVerifyAllowlistedImages, list} }
	for _, test := range []struct {
		options Options
		image   string
		pulled  bool
		want    bool
	}{
		{Options{}, "a.test/b:1", false, false},
		{Options{}, "a.test/b:1", true, true},
		{Options{Policy: NeverVerify}, "a.test/b:1", true, false},
		{Options{Policy: AlwaysVerify}, "a.test/b:1", false, true},
		{listed(), "a.test/b:1", false, true},
		{listed("a.test/b"), "a.test/b:1", true, false},
		{listed("a.test/b"), "a.test/b@sha256:" + strings.Repeat("a", 64), true, false},
		{listed("a.test/b"), "a.test/bc:1", false, true},
		{listed("a.test/b"), "a.test/b/c:1", false, true},
		{listed("a.test/*"), "a.test/b/c:1", false, false},
		{listed("a.test/b/*"), "a.test/b:1", false, true},
		{listed("a.test/*"), "b.test/a.test/b", false, true},
		{listed("nginx"), "nginx:1", false, false},
		{listed("docker.io/library/nginx"), "nginx:1", false, false},
		{listed("docker.io/*"), "me/app", false, false},
		{listed("me/*"), "me/app", false, false},
		{listed("me/*"), "a.test/me/app", false, true},
		{listed("x.test/y", "a.test/*"), "a.test/b", true, false},
	} {
		r, err := test.options.Rules()
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Asks(test.image, test.pulled); got != test.want {
			t.Errorf("%v: %s, pulled %v: asks %v", test.options, test.image, test.pulled, got)
		}
	}
}

func TestRulesAreRefused(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"", "/*", "*", "a.test*", "*.test/a", "a.test/*/b", " a.test/b", "a.test/b ", "a.test/b:1", "a.test/b@sha256:" + strings.Repeat("a", 64), "A.test/B/C D"} {
		if _, err := (Options{NeverVerifyAllowlistedImages, []string{pattern}}).Rules(); err == nil {
			t.Errorf("%q is taken", pattern)
		}
	}
	_, err := Options{"Sometimes", []string{"*", "a.test/b", "x:1"}}.Rules()
	for _, want := range []string{`"Sometimes" is none of NeverVerify,`, "needs the policy NeverVerifyAllowlistedImages", `"*"`, `"x:1"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: without %s", err, want)
		}
	}
}
