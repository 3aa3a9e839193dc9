package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// execute runs the command line and returns what it printed.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := command()
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestHelpOfEverySubcommand(t *testing.T) {
	t.Parallel()
	commands := command().Commands()
	if len(commands) != 29 {
		t.Errorf("%d subcommands, want 29", len(commands))
	}
	for _, cmd := range commands {
		out, err := execute(t, cmd.Name(), "--help")
		if err != nil || !strings.HasPrefix(out, cmd.Short) || !strings.Contains(out, "Usage:\n  howdah "+cmd.Name()) {
			t.Errorf("%s --help: %v\n%s", cmd.Name(), err, out)
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: the summary is %q", cmd.Name(), cmd.Short)
		}
	}
}

// settings runs a role's command line without the role and returns the
// value that each flag would have had.
func settings(t *testing.T, args ...string) (func(flag string) string, error) {
	t.Helper()
	root := command()
	cmd, _, err := root.Find(args[:1])
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, name := range []string{"listen", "database-url", "log-level", "trace-sample-ratio", "apiserver", "tls-dir"} {
			if f := cmd.Flags().Lookup(name); f != nil {
				values[name] = f.Value.String()
			}
		}
		return nil
	}
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return func(flag string) string { return values[flag] }, err
}

func TestFlagBeatsEnvironmentBeatsDefault(t *testing.T) {
	t.Setenv("HOWDAH_LISTEN", ":1111")
	t.Setenv("HOWDAH_DATABASE_URL", "postgres://environment")
	t.Setenv("HOWDAH_TRACE_SAMPLE_RATIO", "0.25")
	get, err := settings(t, "scheduler", "--database-url=postgres://flag", "--log-level", "debug")
	if err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{
		"database-url": "postgres://flag", "log-level": "debug", // flags
		"listen": ":1111", "trace-sample-ratio": "0.25", // environment
		"apiserver": "dns:///apiserver:7443", "tls-dir": "/pki", // defaults
	} {
		if got := get(flag); got != want {
			t.Errorf("--%s is %q, want %q", flag, got, want)
		}
	}
}

// TestAgentTakesTheSettingsOfItsFolder holds that a node agent runs with what howdah join has left, behind its flags and its environment.
func TestAgentTakesTheSettingsOfItsFolder(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "nodeagent.env")
	if err := os.WriteFile(file, []byte("HOWDAH_APISERVER=dns:///file:7443\nHOWDAH_NODE_NAME=file\nHOWDAH_LOG_LEVEL=warn\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOWDAH_NODE_NAME", "environment")
	root := command()
	cmd, _, err := root.Find([]string{"nodeagent"})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, name := range []string{"apiserver", "node-name", "log-level"} {
			values[name] = cmd.Flags().Lookup(name).Value.String()
		}
		return nil
	}
	root.SetArgs([]string{"nodeagent", "--tls-dir", dir, "--log-level", "debug"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"apiserver": "dns:///file:7443", "node-name": "environment", "log-level": "debug"} {
		if values[name] != want {
			t.Errorf("--%s is %q, want %q", name, values[name], want)
		}
	}
	if err := os.WriteFile(file, []byte("HOWDAH_NONSENSE=1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := execute(t, "nodeagent", "--tls-dir", dir); err == nil || !strings.Contains(err.Error(), "HOWDAH_NONSENSE is no setting") {
		t.Errorf("a setting that is none: %v", err)
	}
}

func TestBadEnvironmentIsReportedWhole(t *testing.T) {
	t.Setenv("HOWDAH_TRACE_SAMPLE_RATIO", "many")
	t.Setenv("HOWDAH_NODE_CIDR_MASK_SIZE", "wide")
	_, err := settings(t, "controllers")
	if err == nil || !strings.Contains(err.Error(), "HOWDAH_TRACE_SAMPLE_RATIO") || !strings.Contains(err.Error(), "HOWDAH_NODE_CIDR_MASK_SIZE") {
		t.Errorf("got %v, want both variables", err)
	}
}

func TestGatewayListensWhereKubernetesDoes(t *testing.T) {
	t.Parallel()
	get, err := settings(t, "gateway")
	if err != nil || get("listen") != ":6443" {
		t.Errorf("--listen is %q (%v)", get("listen"), err)
	}
	out, err := execute(t, "gateway", "--help")
	if err != nil || !strings.Contains(out, `(default ":6443")`) {
		t.Errorf("the help says otherwise:\n%s", out)
	}
}

func TestWrongUseIsExplained(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"nonsense"}, `unknown command "nonsense"`},
		{[]string{"migrate"}, "--database-url is required"},
		{[]string{"explain", "service", "x"}, `explain knows pods, not "service"`},
		{[]string{"trace", "deploy"}, "KIND/NAME"},
		{[]string{"trace", "secret/x"}, `not "secret"`},
		{[]string{"scheduler", "--tls-dir=/nonexistent", "--database-url=x"}, "/nonexistent/ca.crt"},
		{[]string{"health", "--tls-dir=/nonexistent"}, "/nonexistent/ca.crt"},
		{[]string{"scheduler", "--log-level=loud"}, `log level "loud"`},
	} {
		if _, err := execute(t, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: got %v, want %q", tt.args, err, tt.want)
		}
	}
	if out, err := execute(t, "version"); err != nil || !strings.HasPrefix(out, "howdah (Kubernetes v1.36") {
		t.Errorf("version: %q, %v", out, err)
	}
}

func TestIngressReportsAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	flags := ingressFlags{redirectPort: 70000, header: -1, otherRanges: []string{"10.96.0.0/16"}}
	err := (&role{}).ingress(t.Context(), flags)
	for _, want := range []string{"--max-connections: 0", "--redirect-port: 70000", "--header-timeout", "--answer-timeout", "--idle-timeout", "--drain-period", "--service-cidr is for --cluster-cidr"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}

func TestApiserverReportsAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	var a apiserverFlags
	a.flags(&cobra.Command{})
	a.serviceCIDRs, a.gatewayEndpoints = []string{"x"}, []string{"y"}
	a.identity.authentication.SigningEndpoint, a.identity.keyFiles, a.identity.authentication.MaxTokenLifetime = "/run/signer.sock", []string{"sa.pub"}, time.Minute
	if key, err := a.signer(t.TempDir()); key != nil || err != nil {
		t.Errorf("a key beside the signing endpoint: %v, %v", key, err)
	}
	_, err := a.config(nil, nil)
	for _, want := range []string{"--database-url", "--service-cidr", "--gateway-endpoints", "mutually exclusive", "must be between 1 hour and 2^32 seconds"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}

func TestPKIPutsHostsIntoNodesCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := execute(t, "pki", "--out", dir, "--nodes", "n1,n2", "--node-hosts", "n1=192.0.2.7,n1=one.example", "--node-hosts", "n2=192.0.2.8"); err != nil {
		t.Fatal(err)
	}
	for node, hosts := range map[string][]string{"n1": {"n1", "192.0.2.7", "one.example"}, "n2": {"n2", "192.0.2.8"}} {
		data, err := os.ReadFile(filepath.Join(dir, node, "tls.crt"))
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(data)
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range hosts {
			if err := certificate.VerifyHostname(host); err != nil {
				t.Errorf("%s: %v", node, err)
			}
		}
		if certificate.VerifyHostname("192.0.2.9") == nil {
			t.Errorf("%s has the name of another", node)
		}
	}
	for _, bad := range []string{"n1", "n1=", "=192.0.2.7", "n3=192.0.2.7"} {
		if _, err := execute(t, "pki", "--out", dir, "--nodes", "n1", "--node-hosts", bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestPKIWritesTheAdministratorsKubeconfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "kubeconfig")
	for range 2 { // the second run keeps the keys
		if _, err := execute(t, "pki", "--out", filepath.Join(dir, "pki"), "--kubeconfig", file); err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(dir, "pki", "admin", "kubeconfig"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil || string(got) != string(want) {
			t.Errorf("the copy differs (%v)", err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v: others can read it", info, err)
		}
	}
}
