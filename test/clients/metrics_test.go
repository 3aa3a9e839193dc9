package clients

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"howdah.dev/kit/pgtest"
	"howdah.dev/test/internal/standalone"
)

// What the kubelet tells, in cores and bytes.
const (
	nodeCores, nodeBytes           = 0.25, 512 << 20
	containerCores, containerBytes = 0.05, 64 << 20
)

// meter is the part of a kubelet that metrics-server asks: one node that is busy, with one container in a pod. It answers those who bear
// the token.
func meter(t *testing.T, namespace, token string) (port string) {
	t.Helper()
	start := time.Now().Add(-time.Hour)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		if r.URL.Path != "/metrics/resource" {
			http.NotFound(w, r)
			return
		}
		now := time.Now()
		seconds, stamp := float64(now.Sub(start).Milliseconds())/1000, now.UnixMilli()
		labels := fmt.Sprintf(`{container="work",namespace=%q,pod="busy"}`, namespace)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		fmt.Fprintf(w, "# TYPE node_cpu_usage_seconds_total counter\nnode_cpu_usage_seconds_total %f %d\n", seconds*nodeCores, stamp)
		fmt.Fprintf(w, "# TYPE node_memory_working_set_bytes gauge\nnode_memory_working_set_bytes %d %d\n", nodeBytes, stamp)
		fmt.Fprintf(w, "# TYPE container_cpu_usage_seconds_total counter\ncontainer_cpu_usage_seconds_total%s %f %d\n", labels, seconds*containerCores, stamp)
		fmt.Fprintf(w, "# TYPE container_memory_working_set_bytes gauge\ncontainer_memory_working_set_bytes%s %d %d\n", labels, containerBytes, stamp)
		fmt.Fprintf(w, "# TYPE container_start_time_seconds gauge\ncontainer_start_time_seconds%s %d\n", labels, start.Unix())
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return portOf(t, server.Listener.Addr().String())
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// fill reads a file of testdata and puts the values in.
func fill(t *testing.T, path string, values map[string]string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return os.Expand(string(text), func(name string) string {
		value, known := values[name]
		if !known {
			t.Errorf("%s wants %s", path, name)
		}
		return value
	})
}

// account writes a kubeconfig of a service account of kube-system, and answers its path and token.
func (u *user) account(name string) (path, token string) {
	u.t.Helper()
	token = strings.TrimSpace(u.must("create", "token", name, "--namespace", "kube-system", "--duration=1h"))
	authority := u.must("config", "view", "--raw", "--minify", "--flatten", "-o", "jsonpath={.clusters[0].cluster.certificate-authority-data}")
	return u.write(name+".kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: howdah, cluster: {server: "https://%s", certificate-authority-data: %s}}]
users: [{name: account, user: {token: %s}}]
contexts: [{name: howdah, context: {cluster: howdah, user: account}}]
current-context: howdah
`, u.c.Address, authority, token)), token
}

const metricsAPI = `apiVersion: v1
kind: Service
metadata: {name: metrics-server, namespace: kube-system}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: metrics-server, namespace: kube-system, port: %s}
`

// TestMetricsServer runs metrics-server with its own account as an extension API server, and asks it with kubectl top. It has a cluster
// of its own: clients elsewhere would see its group come and go.
func TestMetricsServer(t *testing.T) {
	t.Parallel()
	c, err := newCluster(t.Context(), howdah.bin(t), t.TempDir(), pgtest.Start(t, pgtest.Config{}).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	u := newUserOf(t, c)
	u.must("apply", "-f", "testdata/metrics-server.yaml", "--namespace", "kube-system")
	kubeconfig, token := u.account("metrics-server")
	values := map[string]string{"NAMESPACE": u.namespace, "KUBELET_PORT": meter(t, u.namespace, token)}
	u.feed(fill(t, "testdata/metered.yaml", values), "create", "-f", "-")
	u.must("patch", "pod", "busy", "--subresource=status", "-p", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)

	address, err := standalone.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	server := u.spawn("metrics-server", metricsServer.bin(t),
		"--kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port", portOf(t, address), "--cert-dir", t.TempDir(), "--metric-resolution=10s",
		"--kubelet-insecure-tls", "--kubelet-use-node-status-port", "--kubelet-preferred-address-types=InternalIP", "--kubelet-request-timeout=9s")
	u.feed(fmt.Sprintf(metricsAPI, portOf(t, address)), "create", "-f", "-", "--namespace", "kube-system")
	u.must("wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", "--timeout=80s")
	u.walk(step{args: "api-resources --api-group=metrics.k8s.io", want: []string{
		`(?m)^nodes\s+metrics.k8s.io/v1beta1\s+false\s+NodeMetrics$`, `(?m)^pods\s+metrics.k8s.io/v1beta1\s+true\s+PodMetrics$`}})
	u.await("metrics of two scrapes", func() bool {
		out, err := u.try("", "top", "node", "metered")
		return err == nil && strings.Contains(out, "metered")
	})
	u.must("create", "rolebinding", "viewers", "--clusterrole=view", "--user=viewer")
	u.await("viewers to see metrics", func() bool { _, err := u.try("", "top", "pod", "busy", "--as=viewer"); return err == nil })
	const cores, fewer = `(249|250|251)m`, `(49|50|51)m` // a sample's seconds are no whole numbers
	u.walk(
		step{args: "top node metered", want: []string{`NAME\s+CPU\(cores\)\s+CPU\(%\)\s+MEMORY\(bytes\)\s+MEMORY\(%\)`, `metered\s+` + cores + `\s+12%\s+512Mi\s+50%`}},
		step{args: "top node", want: []string{`metered\s+` + cores}},
		step{args: "top pod", want: []string{`NAME\s+CPU\(cores\)\s+MEMORY\(bytes\)`, `busy\s+` + fewer + `\s+64Mi`}},
		step{args: "top pod -l app=busy --containers", want: []string{`busy\s+work\s+` + fewer + `\s+64Mi`}},
		step{args: "top pod -l app=idle", want: []string{`No resources found`}},
		step{args: "top pod --as=viewer", want: []string{`busy\s+` + fewer}},
		step{args: "top pod --as=stranger", fails: true, want: []string{`pods\.metrics\.k8s\.io is forbidden: User "stranger" cannot list resource "pods" in API group "metrics\.k8s\.io"`}},
		step{args: "get pods.metrics.k8s.io", want: []string{`NAME\s+CPU\s+MEMORY\s+WINDOW`, `busy\s+\S+\s+64Mi`}},
		step{args: "get --raw /apis/metrics.k8s.io/v1beta1/nodes", want: []string{`"kind":"NodeMetricsList"`, `"name":"metered"`, `"memory":"512Mi"`}},
		step{args: "get --raw /apis/metrics.k8s.io/v1beta1/nodes/other", fails: true, want: []string{`\(NotFound\)`}},
		step{args: "explain nodes --api-version=metrics.k8s.io/v1beta1", want: []string{`KIND:\s+NodeMetrics`}},
	)
	// A namespace goes once controllers know all that may be in it, and so of metrics too.
	u.must("create", "namespace", "passing")
	u.must("create", "configmap", "passing", "--namespace", "passing")
	u.must("delete", "namespace", "passing", "--timeout=80s")

	_ = server.Process.Kill()
	u.must("wait", "--for=condition=Available=False", "apiservice/v1beta1.metrics.k8s.io", "--timeout=80s")
	u.walk(
		step{args: "get --raw /apis/metrics.k8s.io/v1beta1/nodes", fails: true, want: []string{`\(ServiceUnavailable\)`}},
		step{args: "get pods", want: []string{`busy`}},
	)
	u.must("create", "namespace", "staying")
	u.must("delete", "namespace", "staying", "--wait=false")
	u.await("the namespace to say why it stays", func() bool {
		out, err := u.try("", "get", "namespace", "staying", "-o", `jsonpath={.status.conditions[?(@.type=="NamespaceDeletionDiscoveryFailure")].message}`)
		return err == nil && out == "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: "+
			"metrics.k8s.io/v1beta1: stale GroupVersion discovery: metrics.k8s.io/v1beta1"
	})
	u.must("delete", "apiservice", "v1beta1.metrics.k8s.io")
	u.must("wait", "--for=delete", "namespace/staying", "--timeout=80s")
	u.await("the group to be gone", func() bool {
		out, err := u.try("", "get", "--raw", "/apis")
		return err == nil && !strings.Contains(out, "metrics.k8s.io")
	})
}
