package webhook

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func identities(t *testing.T, text string) (*Identities, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return ReadIdentities(path)
}

// The entry whose name fits a webhook's host best is whom the apiserver is to it.
func TestIdentities(t *testing.T) {
	t.Parallel()
	i, err := identities(t, `{apiVersion: v1, kind: Config, users: [
		{name: exact.example.com, user: {token: exact}}, {name: "exact.example.com:8443", user: {token: port}}, {name: "*.example.com", user: {token: below}},
		{name: hook.ns.svc, user: {token: service}}, {name: "hook.ns.svc:8443", user: {token: service-port}}, {name: "*.other.svc", user: {token: services}},
		{name: "*", user: {username: any, password: one}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	for want, targets := range map[string][]Target{
		"exact":        {{URL: "https://exact.example.com/a"}, {URL: "https://exact.example.com:443/a"}},
		"port":         {{URL: "https://exact.example.com:8443"}},
		"below":        {{URL: "https://a.example.com"}, {URL: "https://a.b.example.com:443/x"}},
		"service":      {{Service: &Service{Namespace: "ns", Name: "hook"}}, {Service: &Service{Namespace: "ns", Name: "hook", Port: 443}}},
		"service-port": {{Service: &Service{Namespace: "ns", Name: "hook", Port: 8443}}},
		"services":     {{Service: &Service{Namespace: "other", Name: "x"}}},
		"":             {{URL: "https://example.com"}, {URL: "https://exact.example.com:9"}, {Service: &Service{Namespace: "ns", Name: "hook", Port: 9}}},
	} {
		for _, target := range targets {
			c := i.For(&target)
			if c == nil || c.Token != want || want == "" && c.Username != "any" {
				t.Errorf("%s: %+v, want %q", target.address(), c, want)
			}
		}
	}
	if c := (*Identities)(nil).For(&Target{URL: "https://a"}); c != nil {
		t.Errorf("nobody is %+v", c)
	}
	current, err := identities(t, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {user: me}}], users: [{name: me, user: {token: mine}}]}`)
	if err != nil || current.For(&Target{URL: "https://a"}).Token != "mine" {
		t.Errorf("the current context is not used: %v", err)
	}
}

func TestPasswordsOfWebhooks(t *testing.T) {
	t.Parallel()
	server, bundle := serve(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		_, _ = fmt.Fprint(w, user, "/", password)
	})
	caller := New(Config{})
	defer caller.Close()
	target := Target{URL: server.URL, CABundle: bundle, Client: &Client{Username: "a", Password: "b"}}
	if answer, err := caller.Post(t.Context(), Call{Target: target}); err != nil || string(answer) != "a/b" {
		t.Errorf("%q, %v", answer, err)
	}
}

func TestBadIdentities(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{apiVersion: v1, kind: Config, users: [{name: a, user: {client-certificate-data: YQ==, client-key-data: YQ==}}]}`:                                    `user "a": client certificate of a webhook`,
		`{apiVersion: v1, kind: Config, users: [{name: a, user: {tokenFile: missing}}]}`:                                                                      "no such file",
		`{apiVersion: v1, kind: Config, users: [{name: a, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Never}}}]}`: "only certificates, tokens and passwords",
		`{`: "kubeconfig of webhooks",
	} {
		if _, err := identities(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
