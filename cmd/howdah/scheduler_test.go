package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asHowdah has the test's own binary be howdah: it names the arguments, a line each.
const asHowdah = "TEST_AS_HOWDAH"

// TestSchedulerRefusesItsConfiguration runs the command as a process: what is refused ends it, says why, and is told by the exit code.
func TestSchedulerRefusesItsConfiguration(t *testing.T) {
	if args := os.Getenv(asHowdah); args != "" {
		os.Args = append([]string{"howdah"}, strings.Split(args, "\n")...)
		main()
		return
	}
	t.Parallel()
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 0\nprofiles: [{plugins: {score: {enabled: [{name: Foo}]}}}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const refusal = `[parallelism: Invalid value: 0: should be an integer value greater than zero, profiles[0].plugins.score.enabled[0].name: ` +
		`Invalid value: "Foo": ScorePlugin "Foo" does not exist (profile "default-scheduler")]`
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"scheduler", "--tls-dir=", "--database-url=x", "--config=" + file}, `howdah: failed to load scheduler configuration from file "` + file + `": ` + refusal},
		{[]string{"standalone", "--database-url=x", "--scheduler-config=" + file}, refusal},
		{[]string{"scheduler", "--tls-dir=", "--database-url=x", "--config=" + file + ".gone"}, "howdah: failed to load scheduler configuration: open " + file + ".gone: no such file or directory"},
		{[]string{"scheduler", "--tls-dir=", "--database-url=x", "--config=" + file, "--scheduler-name=a"}, "howdah: --scheduler-name: the profiles of --config have names of their own"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestSchedulerRefusesItsConfiguration$")
		cmd.Env = append(os.Environ(), asHowdah+"="+strings.Join(tt.args, "\n"))
		out, err := cmd.CombinedOutput()
		cancel()
		ended, ok := errors.AsType[*exec.ExitError](err)
		if !ok || ended.ExitCode() != 1 || !strings.Contains(string(out), tt.want) {
			t.Errorf("%v: %v, want exit code 1 and %s:\n%s", tt.args, err, tt.want, out)
		}
	}
}
