package initialize

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"howdah.dev/cmd/howdah/internal/daemon"
	"howdah.dev/kit/config"
)

func TestControlPlane(t *testing.T) {
	t.Parallel()
	m := setup(t)
	const install, start, restart = "install " + daemon.ControlPlane, "start " + daemon.ControlPlane, "restart " + daemon.ControlPlane
	step := func(name string, want ...string) {
		t.Helper()
		m.services.calls = nil
		m.must(t, "control-plane")
		if !slices.Equal(m.services.calls, want) {
			t.Errorf("%s: %q, want %q", name, m.services.calls, want)
		}
	}
	step("first", install, start)
	if program, err := os.ReadFile(m.Init.Machine.Binary); err != nil || string(program) != "a program" {
		t.Errorf("%q, %v", program, err)
	}
	unit := m.services.units[daemon.ControlPlane]
	if !slices.Equal(unit.Command, []string{m.Init.Machine.Binary, "standalone"}) || unit.Environment != m.Folder.Settings() {
		t.Errorf("%+v", unit)
	}
	for _, file := range []string{m.Folder.Settings(), m.Folder.Made()} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	step("again", install, start)
	m.Cluster.Settings = map[string]string{"logs": "true"}
	step("with other settings", install, restart)
	if err := os.WriteFile(m.Executable, []byte("another program"), 0o755); err != nil {
		t.Fatal(err)
	}
	step("by another program", install, restart)

	// What it is made of is kept, without what was for the moment.
	m.Init.CertificateKey = strings.Repeat("ab", 32)
	m.must(t, "control-plane")
	init, cluster, err := m.Folder.Load()
	if err != nil || cluster.Settings["logs"] != "true" || cluster.Database.URL != m.Cluster.Database.URL || init.Machine.Name != "a" || init.CertificateKey != "" || len(init.BootstrapTokens) > 0 {
		t.Errorf("%+v, %+v, %v", init, cluster, err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	m := setup(t)
	m.Cluster.ControlPlaneEndpoint, m.Cluster.CertSANs = "kube.example", []string{"more.example"}
	m.Cluster.Database.URL = "postgres://howdah:a%20&$b@db/howdah?sslmode=verify-full"
	m.Cluster.Networking.ServiceSubnets = []string{"10.96.0.0/16", "fd00::/112"}
	m.Cluster.Settings = map[string]string{"history-retention": "2h"}
	text, err := settingsFile(m.settings())
	if err != nil {
		t.Fatal(err)
	}
	got, err := config.ParseFile(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	want := map[string]string{
		"DATABASE_URL": m.Cluster.Database.URL, "LISTEN": ":6443", "NODE_LISTEN": ":7444", "DIR": filepath.Join(string(m.Folder), "pki"), "JOIN_SERVER": "https://kube.example:6443",
		"NODE_APISERVER": "dns:///kube.example:7444", "GATEWAY_NAMES": "192.0.2.10,a,kube.example,10.96.0.1,kubernetes.default.svc.cluster.local,more.example",
		"GATEWAY_ENDPOINTS": "192.0.2.10:6443", "APISERVER_NAME": "a", "CLUSTER_CIDR": "10.244.0.0/16", "SERVICE_CIDR": "10.96.0.0/16,fd00::/112",
		"CLUSTER_DOMAIN": "cluster.local", "HISTORY_RETENTION": "2h",
	}
	for name, value := range want {
		if got["HOWDAH_"+name] != value {
			t.Errorf("%s is %q, want %q", name, got["HOWDAH_"+name], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	m.Init.LocalEndpoint.BindAddress = "192.0.2.10"
	if s := m.settings(); s["listen"] != "192.0.2.10:6443" || s["node-listen"] != "192.0.2.10:7444" {
		t.Errorf("%v", s)
	}
}
