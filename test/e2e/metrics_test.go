package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// metricsServerImage is the image's name in examples/metrics-server.yaml.
const metricsServerImage = "registry.k8s.io/metrics-server/metrics-server:v0.9.0"

// importMetricsServer builds metrics-server from its module, and gives it to both nodes as an image.
func importMetricsServer(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "metrics-server"), "sigs.k8s.io/metrics-server/cmd/metrics-server")
	build.Dir, build.Env = filepath.Join("..", "metricsserver"), append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build metrics-server: %v\n%s", err, out)
	}
	script, err := filepath.Abs(filepath.Join("..", "..", "deploy", "images", "pause", "archive.sh"))
	if err != nil {
		t.Fatal(err)
	}
	pack := exec.Command("sh", script, "metrics-server", metricsServerImage, filepath.Join(dir, "image.tar"))
	pack.Dir = dir
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("pack metrics-server: %v\n%s", err, out)
	}
	for _, node := range []string{"node1", "node2"} {
		archive, err := os.Open(filepath.Join(dir, "image.tar"))
		if err != nil {
			t.Fatal(err)
		}
		load := exec.Command("docker", "exec", "-i", "howdah-"+node+"-1", "ctr", "-n", "k8s.io", "images", "import", "-")
		load.Stdin = archive
		out, err := load.CombinedOutput()
		_ = archive.Close()
		if err != nil {
			t.Fatalf("import metrics-server on %s: %v\n%s", node, err, out)
		}
	}
}

// quantity reads what kubectl top prints: "12m", "34Mi".
func quantity(t *testing.T, text, unit string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSuffix(text, unit))
	if err != nil || !strings.HasSuffix(text, unit) {
		t.Errorf("%q is not in %s", text, unit)
	}
	return n
}

// TestUsage looks with kubectl top at a pod that uses half a core and 64 MiB: first as the cluster tells by itself, then by metrics-server, installed
// from the example as its users do, and when that is gone by the cluster again.
func TestUsage(t *testing.T) {
	importMetricsServer(t)
	c := setup(t)
	c.apply(`{apiVersion: v1, kind: Pod, metadata: {name: busy}, spec: {nodeName: node1, terminationGracePeriodSeconds: 0, containers: [
  {name: work, image: "busybox:latest", imagePullPolicy: IfNotPresent, command: [sh, -c, "dd if=/dev/zero of=/held/x bs=1M count=64; while :; do :; done"],
   resources: {limits: {cpu: 500m}}, volumeMounts: [{name: held, mountPath: /held}]}],
  volumes: [{name: held, emptyDir: {medium: Memory}}]}}`)
	c.kubectl("wait", "--for=condition=Ready", "pod/busy", "--timeout=180s")
	c.usage()
	if out := c.kubectl("get", "pods.metrics.k8s.io", "busy"); !regexp.MustCompile(`(?m)^busy +\d+n? +\d+Ki +\S+s$`).MatchString(out) {
		t.Errorf("kubectl get pods.metrics.k8s.io:\n%s", out)
	}

	manifests := "../../examples/metrics-server.yaml"
	c.cluster("apply", "-f", manifests)
	t.Cleanup(func() {
		if t.Failed() {
			out, err := run(time.Minute, "", "kubectl", "-n", "kube-system", "logs", "deployment/metrics-server", "--tail=50")
			t.Logf("metrics-server (err %v):\n%s", err, out)
		}
		c.cluster("delete", "-f", manifests, "--wait=false", "--ignore-not-found")
	})
	c.cluster("-n", "kube-system", "rollout", "status", "deployment/metrics-server", "--timeout=150s")
	c.cluster("wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", "--timeout=180s")
	c.usage()
	c.cluster("delete", "-f", manifests)
	c.usage()
}

// usage awaits that kubectl top tells of the pod busy and of both nodes.
func (c *cluster) usage() {
	c.t.Helper()
	pod := regexp.MustCompile(`(?m)^busy\s+work\s+(\S+)\s+(\S+)\s*$`)
	last := ""
	c.await(2*time.Minute, "the usage of a pod that has worked for two samples", func() bool {
		var err error
		last, err = c.try("top", "pod", "--containers")
		m := pod.FindStringSubmatch(last)
		return err == nil && m != nil && quantity(c.t, m[1], "m") > 100
	})
	c.t.Logf("kubectl top pod:\n%s", last)
	m := pod.FindStringSubmatch(last)
	if cores, memory := quantity(c.t, m[1], "m"), quantity(c.t, m[2], "Mi"); cores > 700 || memory < 64 || memory > 80 {
		c.t.Errorf("half a core and 64 MiB are %dm and %dMi", cores, memory)
	}
	out := c.cluster("top", "node")
	c.t.Logf("kubectl top node:\n%s", out)
	for _, node := range []string{"node1", "node2"} {
		m := regexp.MustCompile(`(?m)^` + node + `\s+(\S+)\s+\d+%\s+(\S+)\s+\d+%\s*$`).FindStringSubmatch(out)
		if m == nil {
			c.t.Errorf("%s is not told:\n%s", node, out)
			continue
		}
		cores, memory := quantity(c.t, m[1], "m"), quantity(c.t, m[2], "Mi")
		if node == "node1" && (cores < 100 || memory < 64) || cores < 1 || memory < 20 {
			c.t.Errorf("%s uses %dm and %dMi", node, cores, memory)
		}
	}
}

// TestNodeEndpoint asks nodes' HTTPS endpoints: through the API server, and directly with a service account's token.
func TestNodeEndpoint(t *testing.T) {
	c := setup(t)
	c.client("client", "node2")
	for path, want := range map[string]string{
		"node1/proxy/metrics/resource":                           "node_cpu_usage_seconds_total ",
		"node1:10250/proxy/metrics/cadvisor":                     "container_network_receive_bytes_total{",
		"https:node1:10250/proxy/healthz":                        "ok",
		"node2/proxy/stats/summary":                              `"nodeName":"node2"`,
		"node2/proxy/pods":                                       `"name":"client"`,
		"node2/proxy/runningpods/":                               `"name":"client"`,
		"node2/proxy/configz":                                    `"kubeletconfig":`,
		"node2/proxy/metrics":                                    "kubelet_running_pods",
		"node2/proxy/metrics/probes":                             "",
		"node2/proxy/metrics/resource?x=y":                       `container_memory_working_set_bytes{container="c",namespace="` + c.namespace + `",pod="client"}`,
		"node2/proxy/containerLogs/" + c.namespace + "/client/c": "",
	} {
		if out := c.cluster("get", "--raw", "/api/v1/nodes/"+path); !strings.Contains(out, want) {
			t.Errorf("%s: %q is not in\n%.2000s", path, want, out)
		}
	}
	c.kubectl("create", "serviceaccount", "scraper")
	name := "e2e-" + c.namespace
	t.Cleanup(func() { c.cluster("delete", "clusterrole,clusterrolebinding", name, "--ignore-not-found") })
	c.cluster("create", "clusterrole", name, "--verb=get", "--resource=nodes/metrics")
	c.cluster("create", "clusterrolebinding", name, "--clusterrole="+name, "--serviceaccount="+c.namespace+":scraper")
	token := strings.TrimSpace(c.kubectl("create", "token", "scraper"))
	authority := "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
	ask := func(path, token string) string {
		out, err := c.inPod("client", "sh", "-c", fmt.Sprintf(`curl -s -m 10 -o /dev/null -w '%%{http_code}' --cacert %s -H 'Authorization: Bearer %s' https://%s:10250%s`, authority, token, c.nodeAddress("node1"), path))
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return out
	}
	for path, want := range map[string]int{
		"/metrics/resource": http.StatusOK, "/metrics/cadvisor": http.StatusOK, "/stats/summary": http.StatusForbidden, "/pods": http.StatusForbidden,
	} {
		if got := ask(path, token); got != strconv.Itoa(want) {
			t.Errorf("%s with a token that may read metrics: %s", path, got)
		}
	}
	if got := ask("/metrics", "nobody"); got != strconv.Itoa(http.StatusUnauthorized) {
		t.Errorf("with nobody's token: %s", got)
	}
}
