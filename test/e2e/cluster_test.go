package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Environment variables say where the cluster is; make test sets them.
const (
	jaegerVariable     = "HOWDAH_JAEGER_URL"
	prometheusVariable = "HOWDAH_PROMETHEUS_URL"
)

// cluster is the cluster under test, as seen by one test in a namespace of
// its own.
type cluster struct {
	t         *testing.T
	namespace string
}

// setup makes a namespace for the test and removes it at the end.
func setup(t *testing.T) *cluster {
	t.Helper()
	if os.Getenv("KUBECONFIG") == "" {
		t.Fatal("KUBECONFIG is not set: run `make up`, and then `make e2e`")
	}
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	c := &cluster{t: t, namespace: fmt.Sprintf("%s-%d", name[:min(len(name), 40)], time.Now().Unix()%100000)}
	c.cluster("create", "namespace", c.namespace)
	t.Cleanup(func() {
		if t.Failed() {
			c.report()
			return // left for a look
		}
		c.cluster("delete", "namespace", c.namespace, "--wait=false")
	})
	c.await(2*time.Minute, "the default service account", func() bool {
		_, err := c.try("get", "serviceaccount", "default")
		return err == nil
	})
	return c
}

// report prints what helps to see why the test failed.
func (c *cluster) report() {
	for _, args := range [][]string{{"get", "all", "-o", "wide"}, {"get", "events"}, {"describe", "pods"}, {"describe", "nodes"}} {
		out, err := c.try(args...)
		c.t.Logf("kubectl %s (err %v):\n%s", strings.Join(args, " "), err, out)
	}
}

// kubectl runs kubectl in the test's namespace and returns what it printed
// to standard output. The test ends where kubectl fails.
func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.try(args...)
	if err != nil {
		c.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// cluster runs kubectl without a namespace.
func (c *cluster) cluster(args ...string) string {
	c.t.Helper()
	out, err := run(time.Minute*3, "", "kubectl", args...)
	if err != nil {
		c.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// try runs kubectl in the test's namespace.
func (c *cluster) try(args ...string) (string, error) {
	return run(3*time.Minute, "", "kubectl", append([]string{"-n", c.namespace}, args...)...)
}

// apply runs kubectl apply on a manifest.
func (c *cluster) apply(manifest string, args ...string) string {
	c.t.Helper()
	out, err := run(time.Minute, yaml(manifest), "kubectl", append([]string{"-n", c.namespace, "apply", "-f", "-"}, args...)...)
	if err != nil {
		c.t.Fatalf("kubectl apply: %v\n%s\n%s", err, out, manifest)
	}
	return out
}

// yaml marks a manifest in flow style as YAML: kubectl takes what begins with
// a brace for JSON.
func yaml(manifest string) string { return "---\n" + manifest }

// jsonpath reads one value of an object.
func (c *cluster) jsonpath(object, path string) string {
	c.t.Helper()
	return c.kubectl("get", object, "-o", "jsonpath="+path)
}

// await polls until done says so. It is for what no kubectl wait can say.
func (c *cluster) await(limit time.Duration, what string, done func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(limit)
	for !done() {
		if time.Now().After(deadline) {
			c.t.Fatalf("waited %s for %s", limit, what)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// run runs a program with a time limit; its error carries standard error.
func run(limit time.Duration, stdin, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// client is a pod with curl and dig on a given node.
func (c *cluster) client(name, node string) {
	c.t.Helper()
	c.apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {role: client}}, spec: {nodeName: %s, terminationGracePeriodSeconds: 0,
  containers: [{name: c, image: "howdah-test/tools:latest", imagePullPolicy: IfNotPresent, command: [sleep, "100000"]}]}}`, name, node))
	c.kubectl("wait", "--for=condition=Ready", "pod/"+name, "--timeout=180s")
}

// inPod runs a command in a client pod.
func (c *cluster) inPod(pod string, command ...string) (string, error) {
	return c.try(append([]string{"exec", pod, "--"}, command...)...)
}
