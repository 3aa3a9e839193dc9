package clients

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// howdah runs the command line in the test's namespace, and answers its output and exit code.
func (u *user) howdah(in string, args ...string) (string, int) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.t.Context()), patience)
	defer cancel()
	env := []string{"KUBECONFIG=" + u.c.Kubeconfig(), "HOME=" + u.home}
	out, err := command(ctx, in, env, howdah.bin(u.t), append(args, "--namespace", u.namespace)...)
	if err == nil {
		return out, 0
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out + err.Error(), exit.ExitCode()
	}
	u.t.Fatal(err)
	return "", 0
}

// expect runs the command line and looks at what it says.
func (u *user) expect(code int, in string, line string, patterns ...string) string {
	u.t.Helper()
	out, got := u.howdah(in, split(line)...)
	if got != code {
		u.t.Fatalf("howdah %s: code %d, want %d\n%s", line, got, code, out)
	}
	for _, pattern := range patterns {
		if !regexp.MustCompile(pattern).MatchString(out) {
			u.t.Errorf("howdah %s: no %q in\n%s", line, pattern, out)
		}
	}
	return out
}

func TestTransactionsAndHistory(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	manifest := func(color string) string {
		return fmt.Sprintf(settings, "one", color) + "---\n" + fmt.Sprintf(settings, "two", color)
	}
	u.expect(0, manifest("red"), "transaction -f - --dry-run", `configmap/one created \(server dry run\)`)
	u.expect(0, manifest("red"), "transaction -f -", `configmap/one created\nconfigmap/two created\nCommitted as revisions \d+ to \d+\.`)
	u.expect(0, manifest("red"), "transaction -f -", `configmap/one unchanged\nconfigmap/two unchanged\nNothing was to be changed.`)
	u.expect(1, manifest("blue")+"---\n"+fmt.Sprintf(settings, "Three", "blue"), "transaction -f -",
		`nothing was changed: item 2 \(apply configmaps "Three"`, `a lowercase RFC 1123 subdomain`)
	if got := u.must("get", "configmap", "one", "-o", "jsonpath={.data.color}"); got != "red" {
		t.Fatalf("a transaction that was refused made it %s", got)
	}
	before := strings.TrimSpace(u.must("get", "configmap", "two", "-o", "jsonpath={.metadata.resourceVersion}"))
	u.expect(0, manifest("blue"), "transaction -f - -o name", `^configmap/one\nconfigmap/two\n$`)
	u.expect(0, fmt.Sprintf(settings, "two", ""), "transaction -f - --operation delete", `configmap/two deleted`)
	u.must("delete", "configmap", "one")

	u.expect(0, "", "history configmap/one", `OPERATION\s+VERB\s+USER\s+MANAGER`, `DELETED\s+delete\s+kubernetes-admin\s+kubectl`,
		`UPDATED\s+apply\s+kubernetes-admin\s+howdah\s+\+1 -1`, `CREATED\s+apply`)
	u.expect(0, "", "history cm one -o wide --since 1h", `kubectl/v`, `howdah/v`)
	u.expect(0, "", "history configmap/one -p", `-  color: red\n\+  color: blue`)
	u.expect(0, "", "history configmap/one -o yaml", `kind: History`, `color: blue`)
	u.expect(1, "", "history configmap/three", `configmaps "three" not found`)
	u.expect(1, "", "history shoes/three", `doesn't have a resource type "shoes"`)
	u.expect(1, "", "diff configmap/one --from "+before, `-  color: red`, `\+\+\+ configmaps/one@\d+`)
	u.expect(0, "", "diff configmap/one --from "+before+" --to "+before, `^$`)
	u.expect(2, "", "diff configmap/one --from noon", `neither a revision`)
	u.expect(0, "", "get configmaps --at "+before+" -l of=shop", `NAME\s+DATA\s+AGE`, `(?m)^one\s+1\s`, `(?m)^two\s+1\s`)
	u.expect(0, "", "get configmap one --at "+before+" -o yaml", `color: red`)
	u.expect(0, "", "get configmap one --at "+time.Now().UTC().Format(time.RFC3339Nano), `No resources found`)
}
