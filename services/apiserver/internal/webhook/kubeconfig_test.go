package webhook

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/kit/pki"
)

// A kubeconfig's user is whom the webhook sees, by certificate and by token.
func TestFromKubeconfig(t *testing.T) {
	t.Parallel()
	authority, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	issue := func(s pki.Subject) pki.Pair {
		pair, err := authority.Issue(s, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	own := issue(pki.Subject{CommonName: "hook", Hosts: []string{"hook.example.com"}})
	certificate, err := tls.X509KeyPair(own.Certificate, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.CommonName, " ", r.Header.Get("Authorization"))
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool()}
	server.StartTLS()
	defer server.Close()

	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	client := issue(pki.Subject{CommonName: "apiserver", Client: true})
	write("ca.crt", string(authority.PEM()))
	write("key", string(client.Key))
	config := func(cluster, user string) string {
		return write("config", fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: w, user: u}}], clusters: [{name: w, cluster: {%s}}], users: [{name: u, user: {%s}}]}", cluster, user))
	}
	there := fmt.Sprintf("server: %q, tls-server-name: hook.example.com, certificate-authority: ca.crt", server.URL)
	target, err := FromKubeconfig(config(there, "token: secret, client-key: key, client-certificate-data: "+base64.StdEncoding.EncodeToString(client.Certificate)))
	if err != nil {
		t.Fatal(err)
	}
	caller := New(Config{})
	defer caller.Close()
	if answer, err := caller.Post(t.Context(), Call{Target: target}); err != nil || string(answer) != "apiserver Bearer secret" {
		t.Errorf("%q, %v", answer, err)
	}

	for text, path := range map[string]string{"no such file": filepath.Join(dir, "none"), "the current context": write("empty", "{apiVersion: v1, kind: Config}")} {
		if _, err := FromKubeconfig(path); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, bad := range [][3]string{
		{there + ", insecure-skip-tls-verify: true", "token: a", "insecure-skip-tls-verify is not supported"},
		{there, "exec: {apiVersion: client.authentication.k8s.io/v1, command: a, interactiveMode: Never}", "only certificates, tokens and passwords"},
		{"server: 'http://a'", "token: a", "must be https"},
		{"server: 'https://a', certificate-authority: missing", "token: a", "no such file"},
	} {
		if _, err := FromKubeconfig(config(bad[0], bad[1])); err == nil || !strings.Contains(err.Error(), bad[2]) {
			t.Errorf("%s: %v", bad[2], err)
		}
	}
}
