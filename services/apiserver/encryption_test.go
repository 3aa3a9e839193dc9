package apiserver

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/pgtest"
	"howdah.dev/migrations"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

func writeEncryptionConfig(t *testing.T, path string, keys ...string) {
	t.Helper()
	text := "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n- resources: [secrets]\n  providers:\n"
	for _, key := range keys {
		text += "  - secretbox: {keys: [{name: " + key + ", secret: " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(key[:1]), 32)) + "}]}\n"
	}
	if err := os.WriteFile(path, []byte(text+"  - identity: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSecretsAreEncrypted follows a Secret through a database from before encryption, its first key and a new one.
func TestSecretsAreEncrypted(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t, pgtest.Template{Name: "apiserver", Setup: func(ctx context.Context, url string) error {
		return migrations.Apply(ctx, url)
	}})
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	const body = `{"metadata":{"name":"a"},"stringData":{"password":"very-secret-indeed"}}`
	stored := func() string {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		var value []byte
		err = conn.QueryRow(t.Context(), `SELECT coalesce(o.value, c.value) FROM howdah.object o
			LEFT JOIN howdah.change c ON c.revision = o.revision WHERE o.key = '/core/secrets/default/a'`).Scan(&value)
		if err != nil {
			t.Fatal(err)
		}
		return string(value)
	}
	run := func(name string, configure func(*Config), use func(t *testing.T, f *fixture)) {
		t.Run(name, func(t *testing.T) {
			use(t, start(t, nil, func(c *Config) { c.DatabaseURL = url; configure(c) }))
		})
	}
	rewrite := func(t *testing.T, f *fixture) {
		t.Helper()
		got, err := f.get("v1/secrets", "default", "a")
		if err != nil || !strings.Contains(string(got), base64.StdEncoding.EncodeToString([]byte("very-secret-indeed"))) {
			t.Fatalf("%s %v", got, err)
		}
		if _, err := f.api.Update(f.ctx, &apiv1.UpdateRequest{Version: "v1", Resource: "secrets", Namespace: "default", Name: "a", Object: got}); err != nil {
			t.Fatal(apistatus.FromGRPC(err))
		}
	}
	run("before", func(*Config) {}, func(t *testing.T, f *fixture) {
		if _, err := f.create("v1/secrets", "default", body); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(stored(), "very-secret-indeed") {
			t.Fatal("the test looks at the wrong row")
		}
	})
	writeEncryptionConfig(t, path, "first")
	run("first key", func(c *Config) { c.EncryptionConfig = path }, func(t *testing.T, f *fixture) {
		rewrite(t, f) // changes nothing, but how it is stored
		if s := stored(); !strings.HasPrefix(s, "k8s:enc:secretbox:v1:first:") || strings.Contains(s, "very-secret") {
			t.Fatalf("stored as %q", s)
		}
	})
	writeEncryptionConfig(t, path, "second", "first")
	run("second key", func(c *Config) { c.EncryptionConfig, c.EncryptionReload = path, true }, func(t *testing.T, f *fixture) {
		rewrite(t, f)
		once := stored()
		if !strings.HasPrefix(once, "k8s:enc:secretbox:v1:second:") {
			t.Fatalf("stored as %q", once)
		}
		rewrite(t, f)
		if stored() != once {
			t.Error("a write that changes nothing was made though it is not stale")
		}
		resp, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/readyz", Query: "verbose"})
		if err != nil || !strings.Contains(string(resp.GetObject()), "[+]kms-providers ok") {
			t.Errorf("%s %v", resp.GetObject(), err)
		}
	})
	run("key lost", func(*Config) {}, func(t *testing.T, f *fixture) {
		if got, err := f.get("v1/secrets", "default", "a"); apistatus.Of(err).Code != 500 {
			t.Errorf("%s %v", got, err)
		}
		if _, err := f.get("v1/namespaces", "", "default"); err != nil {
			t.Errorf("what is not encrypted suffers: %v", err)
		}
	})
}

// TestEachPluginHasItsCheck looks for the checks of plugins that do not answer, under Kubernetes' names.
func TestEachPluginHasItsCheck(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n" +
		"  - kms: {apiVersion: v2, name: one, endpoint: \"unix:///does/not/exist\", timeout: 100ms}\n" +
		"  - kms: {apiVersion: v2, name: two, endpoint: \"unix:///does/not/exist\", timeout: 100ms}\n  - identity: {}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for reload, want := range map[bool][]string{false: {"[-]kms-provider-0 failed", "[-]kms-provider-1 failed"}, true: {"[-]kms-providers failed"}} {
		f := startMemory(t, func(c *Config) { c.EncryptionConfig, c.EncryptionReload = path, reload })
		_, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/readyz", Query: "verbose"})
		for _, line := range want {
			if err = apistatus.FromGRPC(err); err == nil || !strings.Contains(err.Error(), line) {
				t.Errorf("reload %t: %v", reload, err)
			}
		}
	}
}
