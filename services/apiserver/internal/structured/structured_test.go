package structured

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	clocktesting "k8s.io/utils/clock/testing"
)

func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	compiler := authenticationcel.NewDefaultCompiler()
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
	for text, want := range map[string]string{
		head + "jwt: [{issuer: {url: https://a, audiences: [b]}, claimMappings: {username: {claim: sub, prefix: ''}}}]":   "",
		head + "anonymous: {enabled: true, conditions: [{path: /healthz}]}":                                               "",
		head + "jwt: [{issuer: {url: http://a, audiences: [b]}, claimMappings: {username: {claim: sub, prefix: ''}}}]":    "jwt[0].issuer.url: Invalid value: \"http://a\": URL scheme must be https",
		head + "jwt: [{issuer: {url: https://own, audiences: [b]}, claimMappings: {username: {claim: sub, prefix: ''}}}]": "jwt[0].issuer.url",
		head + "jwt: [{issuer: {url: https://a, audiences: [b]}, claimMappings: {username: {expression: 'claims.'}}}]":    "jwt[0].claimMappings.username.expression",
		head + "anonimous: {}":                   "unknown field \"anonimous\"",
		"":                                       "empty config data",
		"kind: Foo":                              "Object 'apiVersion' is missing",
		strings.Replace(head, "tication", "", 1): "no kind",
	} {
		path := written(t, text)
		_, err := Authentication(path, compiler, []string{"https://own"})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestAuthorization(t *testing.T) {
	t.Parallel()
	compiler := authorizationcel.NewDefaultCompiler()
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n"
	for text, want := range map[string]string{
		head + "authorizers: [{type: RBAC, name: rbac}]": "",
		head + "authorizers: [{type: Webhook, name: h, webhook: {timeout: 1s, failurePolicy: Deny, subjectAccessReviewVersion: v1, matchConditionSubjectAccessReviewVersion: v1," +
			" authorizedTTL: 1m, unauthorizedTTL: 1m, connectionInfo: {type: InClusterConfig}, matchConditions: [{expression: 'request.'}]}}]": "matchConditions[0].expression",
		head + "authorizers: [{type: RBAC, name: r}]":                        "expected name rbac for authorizer RBAC instead of r",
		head + "authorizers: []":                                             "authorizers: Required value: at least one authorization mode must be defined",
		head + "authorizers: [{type: RBAC, name: a}, {type: RBAC, name: b}]": "authorizers[1].type: Duplicate value",
		head + "authorizers: [{type: Magic, name: a}]":                       "authorizers[0].type: Unsupported value",
	} {
		cfg, err := Authorization(written(t, text), compiler, []string{"RBAC", "Webhook"})
		if want == "" && (err != nil || len(cfg.Authorizers) != 1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	path, registry, clk := written(t, "one"), prometheus.NewRegistry(), clocktesting.NewFakeClock(time.Unix(1e9, 0))
	f := &File{Path: path, Subject: "authorization", Clock: clk, Registerer: registry}
	applied := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- f.Follow(ctx, func(context.Context) error {
			text, err := os.ReadFile(path)
			applied <- string(text)
			if string(text) == "bad" {
				return errors.New("no")
			}
			return err
		})
	}()
	defer func() { cancel(); <-done }()
	// waits steps the clock until the change is seen; nothing is seen without one.
	waits := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
			clk.Step(Period)
			select {
			case got := <-applied:
				if got != want {
					t.Errorf("applied %q, want %q", got, want)
				}
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
		t.Fatalf("%q is not applied", want)
	}
	replace := func(text string) {
		t.Helper()
		next := path + ".next" // a file that is replaced at once is never read in half
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, path); err != nil {
			t.Fatal(err)
		}
	}
	for !clk.HasWaiters() { // the file was read before
		time.Sleep(time.Millisecond)
	}
	replace("two")
	waits("two")
	replace("bad")
	waits("bad")
	replace("three")
	waits("three")
	cancel()
	<-done
	done <- nil
	if n := testutil.ToFloat64(f.reloads.WithLabelValues("success")); n != 2 {
		t.Errorf("%v successes", n)
	}
	if n := testutil.ToFloat64(f.reloads.WithLabelValues("failure")); n != 1 {
		t.Errorf("%v failures", n)
	}
}

func TestExamplesAreGood(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "..", "..", "examples", "config")
	if _, err := Authentication(filepath.Join(dir, "authentication.yaml"), authenticationcel.NewDefaultCompiler(), nil); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "authorization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// The file that it names must exist.
	here := strings.ReplaceAll(string(text), "/etc/howdah/policy.kubeconfig", written(t, "kind: Config"))
	if _, err := Authorization(written(t, here), authorizationcel.NewDefaultCompiler(), []string{"Node", "RBAC", "Webhook"}); err != nil {
		t.Error(err)
	}
}
