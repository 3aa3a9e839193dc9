package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMainJob is the seed's manifest, unchanged, through the life that a
// user gives it.
func TestMainJob(t *testing.T) {
	c := setup(t)
	manifest, err := os.ReadFile("testdata/nginx-deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if out := c.apply(string(manifest)); !strings.Contains(out, "deployment.extensions/nginx-deployment created") {
		t.Errorf("apply printed %q", out)
	}
	c.kubectl("rollout", "status", "deploy/nginx-deployment", "--timeout=180s")

	t.Run("get", func(t *testing.T) {
		out := c.kubectl("get", "deploy,rs,pods", "-o", "wide")
		for _, want := range []string{
			`NAME +READY +UP-TO-DATE +AVAILABLE +AGE +CONTAINERS +IMAGES +SELECTOR`,
			`deployment.apps/nginx-deployment +3/3 +3 +3 +\S+ +nginx +nginx:1.7.9 +app=nginx`,
			`NAME +DESIRED +CURRENT +READY +AGE +CONTAINERS +IMAGES +SELECTOR`,
			`replicaset.apps/nginx-deployment-\S+ +3 +3 +3 `,
			`NAME +READY +STATUS +RESTARTS +AGE +IP +NODE +NOMINATED NODE +READINESS GATES`,
			`pod/nginx-deployment-\S+ +1/1 +Running +0 +\S+ +10\.244\.\S+ +node[12] +<none> +<none>`,
		} {
			mustMatch(t, out, want)
		}
	})
	t.Run("spread over both nodes", func(t *testing.T) {
		nodes := strings.Fields(c.kubectl("get", "pods", "-l", "app=nginx", "-o", "jsonpath={.items[*].spec.nodeName}"))
		slices.Sort(nodes)
		if len(slices.Compact(nodes)) != 2 {
			t.Errorf("the pods are on %v", nodes)
		}
	})
	t.Run("describe", func(t *testing.T) {
		out := c.kubectl("describe", "deploy/nginx-deployment")
		mustMatch(t, out, `Replicas: +3 desired \| 3 updated \| 3 total \| 3 available \| 0 unavailable`)
		mustMatch(t, out, `ScalingReplicaSet .*Scaled up replica set nginx-deployment-\S+ from 0 to 3`)
		mustMatch(t, c.kubectl("describe", "pod", c.firstPod("app=nginx")), `Scheduled .*default-scheduler +Successfully assigned `+c.namespace+`/nginx-deployment-`)
	})
	t.Run("logs", func(t *testing.T) { testLogs(t, c) })
	t.Run("exec", func(t *testing.T) {
		pod := c.firstPod("app=nginx")
		if got := c.kubectl("exec", pod, "--", "hostname"); strings.TrimSpace(got) != pod {
			t.Errorf("hostname in %s is %q", pod, got)
		}
		out, err := run(time.Minute, "echo from-stdin-$((40+2))\nexit 3\n", "kubectl", "-n", c.namespace, "exec", "-i", pod, "--", "sh")
		if !strings.Contains(out, "from-stdin-42") || err == nil || !strings.Contains(err.Error(), "exit status 3") && !strings.Contains(err.Error(), "exit code 3") {
			t.Errorf("sh printed %q and ended with %v, want from-stdin-42 and exit code 3", out, err)
		}
	})
	t.Run("exec with a terminal", func(t *testing.T) {
		// script gives kubectl a terminal, as a person's shell has one.
		line := "kubectl -n " + c.namespace + " exec -it " + c.firstPod("app=nginx") + " -- sh -c 'tty && echo is-$((1+1))'"
		out, err := run(time.Minute, "", "script", "-qec", line, "/dev/null")
		if err != nil || !strings.Contains(out, "/dev/pts/") || !strings.Contains(out, "is-2") {
			t.Errorf("printed %q (%v)", out, err)
		}
	})
	t.Run("scale", func(t *testing.T) {
		c.kubectl("scale", "deploy/nginx-deployment", "--replicas=5")
		c.kubectl("rollout", "status", "deploy/nginx-deployment", "--timeout=180s")
		c.kubectl("scale", "deploy/nginx-deployment", "--replicas=3")
		c.await(2*time.Minute, "two pods to go", func() bool { return len(c.pods("app=nginx")) == 3 })
	})
	t.Run("roll out and back", func(t *testing.T) {
		c.kubectl("set", "image", "deploy/nginx-deployment", "nginx=nginx:1.9.1")
		c.kubectl("rollout", "status", "deploy/nginx-deployment", "--timeout=180s")
		if got := c.jsonpath("deploy/nginx-deployment", "{.metadata.annotations.deployment\\.kubernetes\\.io/revision}"); got != "2" {
			t.Errorf("revision %q after the update, want 2", got)
		}
		mustMatch(t, c.kubectl("rollout", "history", "deploy/nginx-deployment"), `(?s)1 .*2 `)
		c.kubectl("rollout", "undo", "deploy/nginx-deployment")
		c.kubectl("rollout", "status", "deploy/nginx-deployment", "--timeout=180s")
		if got := c.jsonpath("deploy/nginx-deployment", "{.spec.template.spec.containers[0].image}"); got != "nginx:1.7.9" {
			t.Errorf("image %q after the undo", got)
		}
	})
	t.Run("events", func(t *testing.T) {
		for _, reason := range []string{"Scheduled", "Pulled", "Created", "Started", "SuccessfulCreate", "ScalingReplicaSet", "Killing"} {
			c.await(time.Minute, "the event "+reason, func() bool { return strings.Contains(c.kubectl("get", "events"), " "+reason+" ") })
		}
	})
	t.Run("delete", func(t *testing.T) {
		if out := c.kubectl("delete", "deploy/nginx-deployment"); !strings.Contains(out, `deployment.apps "nginx-deployment" deleted`) {
			t.Errorf("delete printed %q", out)
		}
		c.await(2*time.Minute, "the pods to be collected", func() bool { return len(c.pods("app=nginx")) == 0 })
		if out := c.kubectl("get", "rs", "-o", "name"); out != "" {
			t.Errorf("replica sets are left: %s", out)
		}
	})
}

// testLogs follows a pod's log while a request is made.
func testLogs(t *testing.T, c *cluster) {
	pod := c.firstPod("app=nginx")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	follow := exec.CommandContext(ctx, "kubectl", "-n", c.namespace, "logs", "-f", pod)
	lines, err := follow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = follow.Wait() }()
	// The pod has no probe: that it is ready does not say that nginx listens.
	c.kubectl("exec", pod, "--", "curl", "-s", "--retry", "20", "--retry-connrefused", "--retry-delay", "1", "-o", "/dev/null", "http://127.0.0.1/asked-by-the-test")
	buffer, seen := make([]byte, 4096), ""
	for !strings.Contains(seen, "GET /asked-by-the-test") {
		n, err := lines.Read(buffer)
		if err != nil {
			t.Fatalf("the log ended with %v after %q", err, seen)
		}
		seen += string(buffer[:n])
	}
	if tail := c.kubectl("logs", "--tail=1", pod); !strings.Contains(tail, "asked-by-the-test") || strings.Count(tail, "\n") != 1 {
		t.Errorf("logs --tail=1 printed %q", tail)
	}
}

// TestKubectlVerbs are the smaller verbs of a user's day.
func TestKubectlVerbs(t *testing.T) {
	c := setup(t)
	c.kubectl("create", "configmap", "settings", "--from-literal=color=blue")

	c.kubectl("label", "configmap/settings", "tier=front")
	c.kubectl("annotate", "configmap/settings", "note=kept")
	if got := c.kubectl("get", "cm", "-l", "tier=front", "-o", "name"); got != "configmap/settings\n" {
		t.Errorf("selected %q by label", got)
	}
	c.kubectl("patch", "configmap/settings", "-p", `{"data":{"size":"xl"}}`)
	c.kubectl("patch", "configmap/settings", "--type=json", "-p", `[{"op":"replace","path":"/data/color","value":"red"}]`)
	c.kubectl("patch", "configmap/settings", "--type=merge", "-p", `{"data":{"size":null}}`)
	if got := c.jsonpath("configmap/settings", "{.data}"); got != `{"color":"red"}` {
		t.Errorf("after the patches the data are %s", got)
	}

	editor := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\nsed -i s/red/green/ \"$1\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBE_EDITOR", editor)
	if out := c.kubectl("edit", "configmap/settings"); !strings.Contains(out, "configmap/settings edited") {
		t.Errorf("edit printed %q", out)
	}
	if got := c.jsonpath("configmap/settings", "{.data.color}"); got != "green" {
		t.Errorf("after the edit the color is %s", got)
	}

	apply := "{apiVersion: v1, kind: ConfigMap, metadata: {name: applied}, data: {a: %s}}"
	c.apply(strings.Replace(apply, "%s", "one", 1), "--server-side", "--field-manager=first")
	_, err := run(time.Minute, yaml(strings.Replace(apply, "%s", "two", 1)), "kubectl", "-n", c.namespace, "apply", "--server-side", "--field-manager=second", "-f", "-")
	if err == nil || !strings.Contains(err.Error(), `conflict with "first": .data.a`) {
		t.Errorf("a second manager's apply gave %v, want a conflict", err)
	}
	c.apply(strings.Replace(apply, "%s", "two", 1), "--server-side", "--field-manager=second", "--force-conflicts")
	if got := c.jsonpath("configmap/applied", "{.data.a}"); got != "two" {
		t.Errorf("after the forced apply a is %s", got)
	}

	mustMatch(t, c.cluster("get", "services", "--all-namespaces"), `(?s)NAMESPACE +NAME +TYPE .*default +kubernetes +ClusterIP.*kube-system +kube-dns`)
	mustMatch(t, c.cluster("get", "ns"), `(?m)^NAME +STATUS +AGE$(.|\n)*^default +Active`)
	mustMatch(t, c.cluster("get", "nodes", "-o", "wide"), `node1 +Ready +\S+ +\S+ +v1\.36\S* +\d+\.\d+\.\d+\.\d+`)
	mustMatch(t, c.cluster("cluster-info"), `Kubernetes control plane`)
	mustMatch(t, c.cluster("version"), `Server Version: v1\.36`)
	mustMatch(t, c.cluster("config", "view"), `certificate-authority-data: DATA\+OMITTED`)
	resources := c.cluster("api-resources")
	for _, want := range []string{`pods +po +v1 +true +Pod`, `deployments +deploy +apps/v1 +true +Deployment`, `endpointslices +discovery.k8s.io/v1 +true +EndpointSlice`} {
		mustMatch(t, resources, want)
	}
}

// TestGetWatch sees changes as they happen.
func TestGetWatch(t *testing.T) {
	c := setup(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c.kubectl("create", "configmap", "watched", "--from-literal=a=1")
	watch := exec.CommandContext(ctx, "kubectl", "-n", c.namespace, "get", "configmaps", "-w", "--output-watch-events")
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = watch.Wait() }()
	seen, buffer := "", make([]byte, 4096)
	// see reads on until the watch has told of it: whatever comes before the watch has begun is not told as an event.
	see := func(event string) {
		t.Helper()
		for want := regexp.MustCompile(event + ` +watched`); !want.MatchString(seen); {
			n, err := out.Read(buffer)
			if err != nil {
				t.Fatalf("the watch ended with %v after %q, before %s", err, seen, event)
			}
			seen += string(buffer[:n])
		}
	}
	see("ADDED")
	c.kubectl("label", "configmap/watched", "changed=yes")
	see("MODIFIED")
	c.kubectl("delete", "configmap/watched")
	see("DELETED")
}

func (c *cluster) pods(selector string) []string {
	c.t.Helper()
	return strings.Fields(c.kubectl("get", "pods", "-l", selector, "-o", "jsonpath={.items[*].metadata.name}"))
}

// firstPod returns a pod that is not being deleted.
func (c *cluster) firstPod(selector string) string {
	c.t.Helper()
	pods := strings.Fields(c.kubectl("get", "pods", "-l", selector, "-o",
		"go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{end}}{{end}}"))
	if len(pods) == 0 {
		c.t.Fatalf("no pod has %s", selector)
	}
	return pods[0]
}

func mustMatch(t *testing.T, text, pattern string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(text) {
		t.Errorf("no match for %q in:\n%s", pattern, text)
	}
}
