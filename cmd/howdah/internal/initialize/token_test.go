package initialize

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/cmd/howdah/internal/clusterfile"
	"howdah.dev/kit/object"
)

// tells has the cluster tell where it is, as a control plane does once it is ready.
func (m made) tells(t *testing.T) bootstrap.Info {
	t.Helper()
	ca, err := os.ReadFile(filepath.Join(m.Folder.PKI(), "ca", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	info := bootstrap.Info{Server: m.server(), CA: ca}
	text, err := info.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	if err := bootstrap.EnsureMap(t.Context(), m.client, metav1.NamespacePublic, bootstrap.InfoName, map[string]string{bootstrap.InfoKey: text}); err != nil {
		t.Fatal(err)
	}
	return info
}

func TestTokens(t *testing.T) {
	t.Parallel()
	m := setup(t)
	m.must(t, "certs")
	m.tells(t)
	m.Init.BootstrapTokens = append(m.Init.BootstrapTokens, clusterfile.BootstrapToken{
		TTL: &metav1.Duration{}, Usages: []string{"authentication"}, Groups: []string{"system:bootstrappers:x"}, Description: "mine",
	})
	m.must(t, "bootstrap-token")
	secret, err := object.For(m.client, object.Secret).Get(t.Context(), "kube-system", "bootstrap-token-abcdef")
	if err != nil {
		t.Fatal(err)
	}
	grant, err := bootstrap.GrantOf(secret)
	if rest := time.Until(grant.Expires); err != nil || rest < 23*time.Hour || grant.Description != "made by howdah init" || len(grant.Usages) != 2 {
		t.Errorf("%+v, %v", grant, err)
	}
	if len(m.lines) != 2 || !strings.HasPrefix(m.lines[0], "howdah join 192.0.2.10:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:") {
		t.Errorf("%q", m.lines)
	}
	all, _, err := object.For(m.client, object.Secret).List(t.Context(), "kube-system", metav1.ListOptions{})
	if err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
	m.Init.BootstrapTokens = m.Init.BootstrapTokens[:1]
	m.must(t, "bootstrap-token") // it is there
}

func TestNext(t *testing.T) {
	t.Parallel()
	m := setup(t)
	m.lines = []string{"howdah join x:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:ab"}
	if text := m.next(); strings.Contains(text, "--control-plane") || !strings.Contains(text, m.lines[0]) || !strings.Contains(text, m.Folder.Admin()) {
		t.Errorf("of a single control plane: %s", text)
	}
	m.Cluster.ControlPlaneEndpoint = "x"
	if text := m.next(); !strings.Contains(text, "--control-plane\n\nafter \"howdah init phase upload-certs --upload-certs\"") {
		t.Errorf("without keys: %s", text)
	}
	m.UploadCerts, m.Init.CertificateKey = true, strings.Repeat("cd", 32)
	if text := m.next(); !strings.Contains(text, m.lines[0]+" \\\n    --control-plane --certificate-key "+m.Init.CertificateKey) {
		t.Errorf("with keys: %s", text)
	}
	m.SkipTokenPrint = true
	if text := m.next(); strings.Contains(text, "0123456789") || strings.Contains(text, "cdcd") || !strings.Contains(text, "<value withheld>") {
		t.Errorf("without secrets: %s", text)
	}
	m.Init.Machine.ServiceManager = clusterfile.Systemd
	if text := m.next(); strings.Contains(text, "no systemd") {
		t.Errorf("with systemd: %s", text)
	}
}
