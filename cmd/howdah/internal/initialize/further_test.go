package initialize

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/cmd/howdah/internal/clusterfile"
	"howdah.dev/cmd/howdah/internal/sealed"
)

// TestFurtherIsRefused holds that a machine does not become a further control plane of what is no such cluster, and that nothing is written then.
func TestFurtherIsRefused(t *testing.T) {
	t.Parallel()
	first := setup(t)
	first.must(t, "certs")
	ca, err := os.ReadFile(filepath.Join(first.Folder.PKI(), "ca", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	info := bootstrap.Info{Server: "https://kube.example:6443", CA: ca}
	key := sealed.NewKey()
	files, err := first.sharedFiles()
	if err != nil {
		t.Fatal(err)
	}
	boxes, err := sealed.Seal(key, files)
	if err != nil {
		t.Fatal(err)
	}
	cluster := first.Cluster
	cluster.ControlPlaneEndpoint, cluster.Version, cluster.Database.URL = "kube.example", "v1.36.3", ""
	alone := cluster
	alone.ControlPlaneEndpoint = ""
	config := func(c clusterfile.ClusterConfiguration) *corev1.ConfigMap {
		text, err := clusterfile.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: ConfigName}, Data: map[string]string{ConfigKey: string(text)}}
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: CertsName}, Data: boxes}
	fine := func(string, string) error { return nil }
	for name, tt := range map[string]struct {
		client  kubernetes.Interface
		key     string
		url     string
		allowed func(string, string) error
		want    string
	}{
		"not of howdah init":    {fake.NewClientset(), key.String(), "", fine, "was not made by howdah init"},
		"without an endpoint":   {fake.NewClientset(config(alone), secret), key.String(), "", fine, "no controlPlaneEndpoint"},
		"another release":       {fake.NewClientset(config(cluster), secret), key.String(), "", func(string, string) error { return errors.New("too new") }, "too new"},
		"keys that are gone":    {fake.NewClientset(config(cluster)), key.String(), "", fine, "upload-certs --upload-certs"},
		"another key":           {fake.NewClientset(config(cluster), secret), sealed.NewKey().String(), "", fine, "the certificate key is another"},
		"no key":                {fake.NewClientset(config(cluster), secret), "x", "", fine, "64 hexadecimal digits"},
		"keys not copied":       {fake.NewClientset(config(cluster), secret), "", "postgres://x/y", fine, "have to be copied"},
		"a database of nothing": {fake.NewClientset(config(cluster), secret), key.String(), "postgres://127.0.0.1:1/nothing", fine, "[Database]"},
	} {
		m := setup(t)
		err := Further(t.Context(), m.Env, Joining{
			CertificateKey: tt.key, DatabaseURL: tt.url, Allowed: tt.allowed, Flags: all{},
			Find: func(context.Context) (bootstrap.Info, kubernetes.Interface, error) { return info, tt.client, nil },
		})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if _, err := os.Stat(string(m.Folder)); err == nil || len(m.services.calls) > 0 {
			t.Errorf("%s: something was done: %v", name, m.services.calls)
		}
	}
}

// all takes every setting.
type all struct{}

func (all) CheckSetting(string, string) error { return nil }

func TestCopiedKeys(t *testing.T) {
	t.Parallel()
	m, other := setup(t), setup(t)
	m.must(t, "certs")
	other.must(t, "certs")
	ca, err := os.ReadFile(filepath.Join(m.Folder.PKI(), "ca", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	info := bootstrap.Info{CA: ca}
	for name, tt := range map[string]struct {
		folder Folder
		url    string
		want   string
	}{
		"copied":             {m.Folder, "postgres://x/y", ""},
		"without a database": {m.Folder, "", "--database-url is required"},
		"another cluster's":  {other.Folder, "postgres://x/y", "are of another cluster"},
		"not there":          {Folder(t.TempDir()), "postgres://x/y", "sa.key is not there"},
	} {
		err := copied(tt.folder, Joining{DatabaseURL: tt.url}, info)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	m := setup(t)
	m.must(t, "certs", "kubeconfig", "control-plane")
	if err := m.finish(); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(string(m.Folder), "mine")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	TellReset(m.out, m.Folder)
	if text := m.out.String(); !strings.Contains(text, "would remove "+m.Folder.PKI()) || !m.Folder.There() {
		t.Errorf("%s", text)
	}
	if err := Reset(t.Context(), m.Env); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(string(m.Folder))
	if err != nil || len(left) != 1 || len(m.services.units) > 0 {
		t.Errorf("left are %v, %v, %v", left, m.services.units, err)
	}
	if err := Reset(t.Context(), m.Env); err != nil || m.Folder.There() {
		t.Errorf("again: %v", err)
	}
	m.must(t, "certs") // a try that has failed early leaves keys, too
	if !m.Folder.There() {
		t.Error("nobody would take them away")
	}
}
