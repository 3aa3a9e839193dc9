package initialize

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"howdah.dev/kit/pki"
)

func TestCerts(t *testing.T) {
	t.Parallel()
	m := setup(t)
	m.Cluster.ControlPlaneEndpoint, m.Cluster.CertSANs = "kube.example:443", []string{"198.51.100.7"}
	m.Cluster.Networking.ServiceSubnets, m.Cluster.Networking.DNSDomain = []string{"10.32.0.0/16"}, "k8s.example"
	m.must(t, "certs")
	crt := filepath.Join(m.Folder.PKI(), "gateway", "tls.crt")
	before, err := os.ReadFile(crt)
	if err != nil {
		t.Fatal(err)
	}
	m.must(t, "certs")
	if after, err := os.ReadFile(crt); err != nil || string(after) != string(before) {
		t.Errorf("what is good is replaced: %v", err)
	}
	entries, err := pki.List(m.Folder.PKI())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(entries, func(e pki.Entry) bool { return e.Role == "gateway" })
	for _, name := range []string{"127.0.0.1", "192.0.2.10", "a", "kube.example", "198.51.100.7", "10.32.0.1", "kubernetes.default.svc.k8s.example", "gateway"} {
		if err := entries[i].Certificate.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}
