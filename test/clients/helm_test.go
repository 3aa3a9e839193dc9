package clients

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
)

func TestHelm3(t *testing.T) { t.Parallel(); releases(t, helm3) }

func TestHelm4(t *testing.T) { t.Parallel(); releases(t, helm4) }

// releases takes a chart through the life of a release.
func releases(t *testing.T, p *program) {
	u := newUser(t)
	chart := "testdata/shop"
	run := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*patience)
		defer cancel()
		env := []string{"KUBECONFIG=" + u.c.Kubeconfig(), "HOME=" + u.home, "HELM_CACHE_HOME=" + u.home, "HELM_CONFIG_HOME=" + u.home, "HELM_DATA_HOME=" + u.home}
		return command(ctx, "", env, p.bin(t), append([]string{"--namespace", u.namespace}, args...)...)
	}
	helm := func(args ...string) string {
		t.Helper()
		out, err := run(args...)
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", p.name, strings.Join(args, " "), err, out)
		}
		return out
	}
	color := func(want string) {
		t.Helper()
		if got := u.must("get", "configmap", "one", "-o", "jsonpath={.data.color}"); got != want {
			t.Errorf("the color is %q, want %q", got, want)
		}
	}
	has := func(what, out string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("%s: no %q in\n%s", what, part, out)
			}
		}
	}

	has("install", helm("install", "one", chart, "--wait", "--timeout", "2m"), "STATUS: deployed", "REVISION: 1", "The shop one is red.")
	color("red")
	has("what it waited for", u.must("get", "deployment", "one", "-o", "jsonpath={.status.availableReplicas}"), "2")
	has("the hook", u.must("get", "configmap", "one-before", "-o", "jsonpath={.data.revision}"), "1")
	has("the look-up", u.must("get", "configmap", "one-looked-up", "-o", "jsonpath={.data.phase}"), "Active")
	if out, err := run("install", "one", chart); err == nil || !strings.Contains(err.Error(), "cannot re-use a name") && !strings.Contains(err.Error(), "cannot reuse a name") {
		t.Errorf("a name that is taken: %v %s", err, out)
	}
	has("upgrade", helm("upgrade", "one", chart, "--set", "color=blue,replicas=3", "--wait", "--timeout", "2m"), "REVISION: 2", "The shop one is blue.")
	color("blue")
	has("history", helm("history", "one"), "superseded", "Upgrade complete")
	has("rollback", helm("rollback", "one", "1", "--wait", "--timeout", "2m"), "Rollback was a success")
	color("red")
	has("replicas after the rollback", u.must("get", "deployment", "one", "-o", "jsonpath={.spec.replicas}"), "2")
	var list []struct{ Name, Status, Revision string }
	if out := helm("list", "-o", "json"); json.Unmarshal([]byte(out), &list) != nil || len(list) != 1 || list[0].Name != "one" || list[0].Status != "deployed" || list[0].Revision != "3" {
		t.Errorf("list: %s", out)
	}
	has("status", helm("status", "one"), "STATUS: deployed")
	has("values", helm("get", "values", "one", "--all"), "color: red")
	has("manifest", helm("get", "manifest", "one"), "kind: Deployment")
	has("dry run", helm("upgrade", "one", chart, "--dry-run=server", "--set", "color=green"), "color: green")
	color("red")
	if out, err := run("upgrade", "one", chart, "--set", "replicas=-1"); err == nil || !strings.Contains(err.Error(), "must be greater than or equal to 0") {
		t.Errorf("a value that the API refuses: %v %s", err, out)
	}
	has("the failure is remembered", helm("history", "one"), "failed")
	has("uninstall", helm("uninstall", "one", "--wait", "--timeout", "2m"), `release "one" uninstalled`)
	if out, err := u.try("", "get", "deployment,configmap,service", "one"); err == nil || strings.Contains(out, "deployment.apps/one") {
		t.Errorf("what is left: %s %v", out, err)
	}
	has("the hook after it", u.must("get", "configmap", "one-after", "-o", "jsonpath={.data.gone}"), "one")
}
