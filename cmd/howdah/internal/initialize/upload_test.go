package initialize

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/cmd/howdah/internal/sealed"
	"howdah.dev/kit/object"
)

var roleKind = object.Kind[*rbacv1.Role]{
	GVK: rbacv1.SchemeGroupVersion.WithKind("Role"), Resource: "roles", Namespaced: true, New: func() *rbacv1.Role { return &rbacv1.Role{} },
}

func TestUploadConfig(t *testing.T) {
	t.Parallel()
	m := setup(t)
	m.Cluster.Settings = map[string]string{"logs": "true"}
	m.must(t, "upload-config", "upload-config")
	kept, err := object.For(m.client, object.ConfigMap).Get(t.Context(), "kube-system", ConfigName)
	if err != nil {
		t.Fatal(err)
	}
	if text := kept.Data[ConfigKey]; strings.Contains(text, "PASSWORD") || strings.Contains(text, "postgres") {
		t.Errorf("it has where the database is: %s", text)
	}
	c, err := ParseConfig(kept.Data[ConfigKey])
	if err != nil || c.Version != "v1.36.3" || c.Settings["logs"] != "true" {
		t.Errorf("%+v, %v", c, err)
	}
	for name, want := range map[string]string{"howdah:cluster-configuration": "[howdah-cluster] [get]", "howdah:control-planes": "[] [get list]"} {
		r, err := object.For(m.client, roleKind).Get(t.Context(), "kube-system", name)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(strings.Join([]string{"[" + strings.Join(r.Rules[0].ResourceNames, " ") + "]", "[" + strings.Join(r.Rules[0].Verbs, " ") + "]"}, " ")); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if _, err := ParseConfig("kind: Pod\napiVersion: v1\n"); err == nil {
		t.Error("another kind is read")
	}
}

func TestUploadCerts(t *testing.T) {
	t.Parallel()
	m := setup(t)
	secrets := object.For(m.client, object.Secret)
	m.must(t, "upload-certs")
	if _, err := secrets.Get(t.Context(), "kube-system", CertsName); err == nil {
		t.Error("without --upload-certs they are uploaded")
	}
	m.UploadCerts = true
	if err := m.phase(t, "upload-certs"); err == nil {
		t.Error("without keys they are uploaded")
	}
	m.must(t, "certs", "upload-certs")
	first := m.Init.CertificateKey
	m.Init.CertificateKey = ""
	m.must(t, "upload-certs")
	if first == m.Init.CertificateKey || !strings.Contains(m.out.String(), m.Init.CertificateKey) {
		t.Errorf("the key %q is not another, or not told", m.Init.CertificateKey)
	}
	key, err := sealed.ParseKey(m.Init.CertificateKey)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := secrets.Get(t.Context(), "kube-system", CertsName)
	if err != nil || len(secret.OwnerReferences) != 1 {
		t.Fatal(secret, err)
	}
	life, err := secrets.Get(t.Context(), "kube-system", secret.OwnerReferences[0].Name)
	if err != nil || life.UID != secret.OwnerReferences[0].UID {
		t.Fatalf("the owner: %v, %v", life, err)
	}
	grant, err := bootstrap.GrantOf(life)
	if rest := time.Until(grant.Expires); err != nil || rest < certsFor-time.Minute || rest > certsFor || len(grant.Usages) > 0 || len(grant.Groups) > 0 {
		t.Errorf("%+v, %v", grant, err)
	}

	// Another machine has by it what the first has.
	dir := t.TempDir()
	files, err := openCerts(dir, key, secret.Data)
	if err != nil || string(files[databaseFile]) != m.Cluster.Database.URL {
		t.Fatalf("%q, %v", files[databaseFile], err)
	}
	if err := writeCerts(dir, files); err != nil {
		t.Fatal(err)
	}
	for _, path := range shared {
		mine, err1 := os.ReadFile(filepath.Join(m.Folder.PKI(), path))
		its, err2 := os.ReadFile(filepath.Join(dir, path))
		if err1 != nil || err2 != nil || string(mine) != string(its) {
			t.Errorf("%s: %v, %v", path, err1, err2)
		}
	}
	if _, err := openCerts(dir, key, secret.Data); err != nil {
		t.Errorf("again: %v", err)
	}
	other := setup(t)
	other.must(t, "certs")
	if _, err := openCerts(other.Folder.PKI(), key, secret.Data); err == nil || !strings.Contains(err.Error(), "another one") {
		t.Errorf("over another cluster's: %v", err)
	}
	delete(secret.Data, "sa.key")
	if _, err := openCerts(t.TempDir(), key, secret.Data); err == nil || !strings.Contains(err.Error(), "lacks sa.key") {
		t.Errorf("without one: %v", err)
	}
}
