package gateway_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program is the kubectl that make test builds, else whichever there is. Those before 1.33 lose what comes over a WebSocket before all
// of their streams are made, and then exec prints nothing now and then.
func program(t *testing.T) string {
	t.Helper()
	if built := os.Getenv("HOWDAH_TEST_BIN"); built != "" {
		return filepath.Join(built, "kubectl")
	}
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Fatal("kubectl is missing: hack/install.sh --test installs it")
	}
	return kubectl
}

// TestKubectl runs the real program over both transports: what client-go's
// packages do by themselves is tested elsewhere, here it is how kubectl joins them.
func TestKubectl(t *testing.T) {
	t.Parallel()
	kubectl := program(t)
	c := setup(t)
	kubeconfig, err := c.pki.Kubeconfig("admin", c.url)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]},"status":{"phase":"Running"}}`
	if got := c.do(c.client("admin"), "POST", "/api/v1/namespaces/default/pods", pod); got.StatusCode != 201 {
		t.Fatal(got.body)
	}
	tests := []struct {
		name    string
		args    []string
		in, out string
		code    int
	}{
		{"get", []string{"get", "pods", "-o", "name"}, "", "pod/p", 0},
		{"raw", []string{"get", "--raw", "/version"}, "", `{"major":"1"`, 0},
		{"not found", []string{"get", "pod", "x"}, "", `Error from server (NotFound): pods "x" not found`, 1},
		{"logs", []string{"logs", "p"}, "", "one\ntwo", 0},
		{"exec", []string{"exec", "-i", "p", "--", "cat"}, "through and back", "through and back", 0},
		{"exit code", []string{"exec", "p", "--", "exit 7"}, "", "command terminated with exit code 7", 7},
		{"label", []string{"label", "pod", "p", "x=y"}, "", "pod/p labeled", 0},
		{"delete", []string{"delete", "pod", "p", "--wait=false"}, "", `pod "p" deleted`, 0},
	}
	for _, websockets := range []string{"true", "false"} {
		for _, tt := range tests {
			if websockets == "false" && tt.args[0] != "exec" && tt.args[0] != "logs" {
				continue
			}
			if websockets == "false" && tt.name == "logs" {
				c.do(c.client("admin"), "POST", "/api/v1/namespaces/default/pods", pod)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			cmd := exec.CommandContext(ctx, kubectl, append([]string{"--kubeconfig", path}, tt.args...)...)
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "KUBECTL_REMOTE_COMMAND_WEBSOCKETS="+websockets)
			cmd.Stdin = strings.NewReader(tt.in)
			out, _ := cmd.CombinedOutput()
			cancel()
			if got := cmd.ProcessState.ExitCode(); got != tt.code || !strings.Contains(string(out), tt.out) {
				t.Errorf("%s (websockets %s): exit code %d, %s", tt.name, websockets, got, out)
			}
		}
	}
}
