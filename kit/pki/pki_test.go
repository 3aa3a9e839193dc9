package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(now time.Time) func() time.Time { return func() time.Time { return now } }

func snapshot(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir+"/")] = data
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func initAt(t *testing.T, dir string, now time.Time, options Options) map[string][]byte {
	t.Helper()
	options.Now = at(now)
	if err := Init(dir, options); err != nil {
		t.Fatal(err)
	}
	return snapshot(t, dir)
}

func TestInitMakesWhatTheRolesNeed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := initAt(t, dir, epoch, Options{Nodes: []string{"node1"}, Hosts: map[string][]string{"gateway": {"203.0.113.7"}}})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(files["ca/ca.crt"])

	tests := []struct {
		folder, commonName, organization string
		hosts                            []string
		client                           bool
	}{
		{"gateway", "howdah:gateway", "howdah:gateways", []string{"gateway", "localhost", "127.0.0.1", "kubernetes.default.svc.cluster.local", "10.96.0.1", "203.0.113.7"}, true},
		{"apiserver", "howdah:apiserver", "howdah:apiservers", []string{"apiserver", "localhost"}, true},
		{"scheduler", "system:kube-scheduler", "", []string{"scheduler"}, true},
		{"controllers", "system:kube-controller-manager", "", []string{"controllers"}, true},
		{"dns", "system:coredns", "howdah:dns", nil, true},
		{"ingress", "howdah:ingress", "howdah:ingresses", []string{"ingress", "127.0.0.1"}, true},
		{"prometheus", "howdah:prometheus", "howdah:monitors", nil, true},
		{"node1", "system:node:node1", "system:nodes", []string{"node1", "127.0.0.1"}, true},
		{"admin", "kubernetes-admin", "system:masters", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.folder, func(t *testing.T) {
			t.Parallel()
			if !bytes.Equal(files[tt.folder+"/ca.crt"], files["ca/ca.crt"]) {
				t.Error("ca.crt is not the authority's")
			}
			if _, err := tls.X509KeyPair(files[tt.folder+"/tls.crt"], files[tt.folder+"/tls.key"]); err != nil {
				t.Fatal(err)
			}
			cert, err := decodeCertificate(files[tt.folder+"/tls.crt"])
			if err != nil {
				t.Fatal(err)
			}
			if got := cert.Subject.CommonName; got != tt.commonName {
				t.Errorf("CN %q, want %q", got, tt.commonName)
			}
			if got := strings.Join(cert.Subject.Organization, ","); got != tt.organization {
				t.Errorf("O %q, want %q", got, tt.organization)
			}
			verify := func(usage x509.ExtKeyUsage, host string) error {
				_, err := cert.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: epoch, DNSName: host, KeyUsages: []x509.ExtKeyUsage{usage}})
				return err
			}
			for _, host := range tt.hosts {
				if err := verify(x509.ExtKeyUsageServerAuth, host); err != nil {
					t.Errorf("as server %s: %v", host, err)
				}
			}
			if tt.hosts == nil && verify(x509.ExtKeyUsageServerAuth, "") == nil {
				t.Error("a client certificate must not serve")
			}
			if err := verify(x509.ExtKeyUsageClientAuth, ""); err != nil {
				t.Errorf("as client: %v", err)
			}
			info, err := os.Stat(filepath.Join(dir, tt.folder, "tls.key"))
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != 0o600 {
				t.Errorf("key's mode %v", info.Mode())
			}
		})
	}

	config, err := clientcmd.Load(files["admin/kubeconfig"])
	if err != nil {
		t.Fatal(err)
	}
	if got := config.Clusters["howdah"].Server; got != "https://127.0.0.1:6443" {
		t.Errorf("admin's server %q", got)
	}
	for _, name := range []string{"apiserver/sa.key", "apiserver/sa.pub", "apiserver/encryption.yaml", "dns/kubeconfig"} {
		if len(files[name]) == 0 {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestInitKeepsWhatIsValid(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	nodes := Options{Nodes: []string{"node1"}}
	tests := []struct {
		name    string
		after   time.Duration
		options Options
		changed []string // prefixes of names that must change; all else must not
	}{
		{"nothing changed", day, nodes, nil},
		{"31 days left", 365*day - 31*day, nodes, nil},
		{"29 days left", 365*day - 29*day, nodes, []string{"*/tls.", "*/kubeconfig"}},
		{"names changed", day, Options{Nodes: nodes.Nodes, Hosts: map[string][]string{"gateway": {"other"}}}, []string{"gateway/tls."}},
		{"a node more", day, Options{Nodes: []string{"node1", "node2"}}, []string{"node2/"}},
		{"the authority ends", 3640 * day, nodes, []string{"*/tls.", "*/kubeconfig", "*/ca.crt"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			before := initAt(t, dir, epoch, nodes)
			after := initAt(t, dir, epoch.Add(tt.after), tt.options)
			expected := func(name string) bool {
				_, file, _ := strings.Cut(name, "/")
				for _, prefix := range tt.changed {
					if rest, any := strings.CutPrefix(prefix, "*/"); any && strings.HasPrefix(file, rest) || strings.HasPrefix(name, prefix) {
						return true
					}
				}
				return false
			}
			for name, data := range after {
				if changed := !bytes.Equal(before[name], data); changed != expected(name) {
					t.Errorf("%s: changed is %v", name, changed)
				}
			}
		})
	}
}

func TestInitRepairsAndRefuses(t *testing.T) {
	t.Parallel()
	t.Run("a broken leaf is made again", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		initAt(t, dir, epoch, Options{})
		if err := os.WriteFile(filepath.Join(dir, "scheduler/tls.crt"), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		files := initAt(t, dir, epoch, Options{})
		if _, err := tls.X509KeyPair(files["scheduler/tls.crt"], files["scheduler/tls.key"]); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a broken token key is not overwritten", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		initAt(t, dir, epoch, Options{})
		path := filepath.Join(dir, "apiserver/sa.key")
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Init(dir, Options{}); err == nil || !strings.Contains(err.Error(), "sa.key") {
			t.Fatalf("got %v", err)
		}
		if data, _ := os.ReadFile(path); string(data) != "half" {
			t.Fatal("the file was changed")
		}
	})
	t.Run("bad options are all reported", func(t *testing.T) {
		t.Parallel()
		err := Init(t.TempDir(), Options{Nodes: []string{"Node_1", "gateway"}, Hosts: map[string][]string{"nobody": {"x"}}})
		for _, part := range []string{"Node_1", `"gateway" is taken`, "nobody"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not name %s", err, part)
			}
		}
	})
}

func TestTheKeyOfTheDatabaseIsKept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "apiserver/encryption.yaml")
	if err := Init(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(first, []byte("kind: EncryptionConfiguration")) {
		t.Fatalf("%s %v", first, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
	if err := Init(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(first, again) {
		t.Error("the key was replaced", err)
	}
	other := t.TempDir()
	if err := Init(other, Options{}); err != nil {
		t.Fatal(err)
	}
	if theirs, err := os.ReadFile(filepath.Join(other, "apiserver/encryption.yaml")); err != nil || bytes.Equal(first, theirs) {
		t.Error("two clusters have the same key", err)
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	m, err := NewMemory(Options{Nodes: []string{"node1"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Public("gateway"); err != nil {
		t.Error(err)
	}
	if _, err := m.Client("node1"); err != nil {
		t.Error(err)
	}
	if _, err := m.Client("node2"); err == nil {
		t.Error("a node that does not exist has a certificate")
	}
	data, err := m.Kubeconfig("admin", "https://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if config, err := clientcmd.RESTConfigFromKubeConfig(data); err != nil || config.Host != "https://127.0.0.1:1" {
		t.Fatalf("%v %v", config, err)
	}
}
