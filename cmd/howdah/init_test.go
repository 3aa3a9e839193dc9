package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howdah.dev/cmd/howdah/internal/clusterfile"
	"howdah.dev/cmd/howdah/internal/initialize"
	"howdah.dev/kit/wholefile"
)

const example = "../../examples/config/init-configuration.yaml"

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestConfigCommands holds that what is printed is taken, that the example is, and that all that is wrong with a file is told.
func TestConfigCommands(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"init-defaults", "join-defaults"} {
		out, err := execute(t, "config", "print", kind)
		if err != nil || !strings.Contains(out, "apiVersion: howdah.dev/v1\n") {
			t.Fatalf("%s: %v\n%s", kind, err, out)
		}
		if out, err := execute(t, "config", "validate", "--config", file(t, out)); err != nil || out != "ok\n" {
			t.Errorf("%s: %v, %s", kind, err, out)
		}
	}
	// The machine that runs the test needs no address: the example's names it.
	if out, err := execute(t, "config", "validate", "--config", example); err != nil {
		t.Errorf("%v, %s", err, out)
	}
	_, err := execute(t, "config", "validate", "--config", file(t, `apiVersion: howdah.dev/v1
kind: ClusterConfiguration
settings: {event-ttl: soon, no-flag: x, listen: ":1"}
networking: {podSubnet: 10.96.0.0/24}
`))
	for _, want := range []string{"database.url: Required", "settings[event-ttl]", "settings[no-flag]", "settings[listen]: Forbidden", "networking.podSubnet"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

func TestInitRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	join, err := execute(t, "config", "print", "join-defaults")
	if err != nil {
		t.Fatal(err)
	}
	control := file(t, join+"controlPlane: {}\n")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"flags beside a file":       {[]string{"init", "--config", example, "--service-cidr", "10.0.0.0/16", "--node-name", "x"}, "can not mix --config with --node-name, --service-cidr"},
		"a file for join":           {[]string{"init", "--config", file(t, join)}, "is for howdah join"},
		"no database":               {[]string{"init", "--apiserver-advertise-address", "192.0.2.1", "--dir", t.TempDir()}, "database.url: Required"},
		"a phase that is none":      {[]string{"init", "--database-url", "postgres://x/y", "--apiserver-advertise-address", "192.0.2.1", "--skip-phases", "etcd", "--dir", t.TempDir()}, `Unsupported value: "etcd"`},
		"join: flags beside a file": {[]string{"join", "--config", control, "--token", "x"}, "can not mix --config with --token"},
		"join: an endpoint, too":    {[]string{"join", "x:6443", "--config", control}, "can not mix --config with x:6443"},
		"join: a file for init":     {[]string{"join", "--config", example}, "takes a JoinConfiguration alone"},
		"join: both at once":        {[]string{"join", "--config", control}, "a control plane is no node"},
		"join: a key for a node":    {[]string{"join", "x:6443", "--certificate-key", "x"}, "--certificate-key goes with --control-plane"},
		"token: a key alone":        {[]string{"token", "create", "--certificate-key", strings.Repeat("ab", 32)}, "goes with --print-join-command"},
		"token: a short key":        {[]string{"token", "create", "--print-join-command", "--certificate-key", "ab"}, "64 hexadecimal digits"},
		"upgrade: nothing there":    {[]string{"upgrade", "plan", "--dir", t.TempDir()}, "has no control plane"},
		"upgrade: another release":  {[]string{"upgrade", "apply", "v9.9.9", "--dir", t.TempDir()}, "run that of v9.9.9"},
		"upgrade: no machine":       {[]string{"upgrade", "node", "--dir", t.TempDir(), "--tls-dir", t.TempDir()}, "neither a control plane"},
	} {
		out, err := execute(t, tt.args...)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q\n%s", name, err, tt.want, out)
		}
	}
}

// TestFlagsGoOverWhatTheMachineWasMadeOf holds that a phase that is run later need not be told all again, and may be told something else.
func TestFlagsGoOverWhatTheMachineWasMadeOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := initialize.Folder(dir)
	init, cluster := clusterfile.InitDefaults()
	cluster.CertSANs = []string{"old.example"}
	init.BootstrapTokens = nil
	text, err := clusterfile.Encode(init, cluster)
	if err != nil {
		t.Fatal(err)
	}
	if err := wholefile.Write(folder.Made(), text, 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(args ...string) *initialize.Env {
		t.Helper()
		var i initFlags
		cmd := command()
		i.flags(cmd.Flags())
		if err := cmd.ParseFlags(append(args, "--dir", dir)); err != nil {
			t.Fatal(err)
		}
		e, err := i.env(cmd)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	if e := read(); e.Init.Machine.Name != "machine" || e.Cluster.CertSANs[0] != "old.example" || e.Cluster.Database.URL != cluster.Database.URL {
		t.Errorf("%+v, %+v", e.Init, e.Cluster)
	}
	e := read("--apiserver-cert-extra-sans", "a.example,b.example", "--token-ttl", "1h", "--apiserver-bind-port", "443")
	if len(e.Cluster.CertSANs) != 2 || e.Cluster.CertSANs[1] != "b.example" || e.Cluster.Ports.API != 443 || e.Init.BootstrapTokens[0].TTL.Hours() != 1 ||
		e.Init.Machine.Name != "machine" || e.Cluster.Ports.Nodes != cluster.Ports.Nodes || e.Cluster.Database.URL != cluster.Database.URL {
		t.Errorf("%+v, %+v", e.Init, e.Cluster)
	}
}

func TestResetTellsOfControlPlanes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	init, cluster := clusterfile.InitDefaults()
	text, err := clusterfile.Encode(init, cluster)
	if err != nil {
		t.Fatal(err)
	}
	if err := wholefile.Write(initialize.Folder(dir).Made(), text, 0o600); err != nil {
		t.Fatal(err)
	}
	none := t.TempDir()
	out, err := execute(t, "reset", "--dry-run", "--dir", dir, "--tls-dir", none)
	if err != nil || !strings.Contains(out, "would remove "+initialize.Folder(dir).Made()) || strings.Contains(out, "pods") || !initialize.Folder(dir).There() {
		t.Errorf("%v, %s", err, out)
	}
	if out, err := execute(t, "reset", "--dir", dir, "--tls-dir", none); err == nil || !strings.Contains(out, "takes the control plane of this machine away") || !initialize.Folder(dir).There() {
		t.Errorf("without consent: %v, %s", err, out)
	}
}

func TestCertsFolder(t *testing.T) {
	t.Parallel()
	one, two := filepath.Join(t.TempDir(), "pki"), t.TempDir()
	if got := certsFolder(one, two); got != two {
		t.Errorf("%s", got)
	}
	if err := os.Mkdir(one, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := certsFolder(one, two); got != one {
		t.Errorf("%s", got)
	}
	if got := certsFolder("nothing", "neither"); got != "nothing" {
		t.Errorf("%s", got)
	}
}
