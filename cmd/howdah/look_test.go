package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kubeconfig writes one for a server.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}],
  users: [{name: u, user: {token: t}}], contexts: [{name: c, context: {cluster: c, user: u, namespace: shop}}]}`, server)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExplainPrintsVerdicts(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"/howdah/v1/namespaces/shop/pods/big/explain": `{"namespace":"shop","name":"big","scheduler":"default-scheduler","queue":"unschedulable","attempts":3,
			"message":"0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.","somethingNew":1,
			"nodes":[{"node":"n1","filters":[{"filter":"NodeName","passed":true},{"filter":"NodeResourcesFit","reasons":["Insufficient cpu","Insufficient memory"]}]},
			         {"node":"n2","filters":[{"filter":"NodeUnschedulable","reasons":["node(s) were unschedulable"]}]}]}`,
		"/howdah/v1/namespaces/other/pods/web/explain": `{"namespace":"other","name":"web","node":"n1","scheduler":"default-scheduler",
			"nodes":[{"node":"n1","feasible":true,"score":"310","scores":[{"name":"ImageLocality","score":"10","weight":"1"},{"name":"TaintToleration","score":"100","weight":"3"}]}]}`,
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // tokens go over TLS only
		answer, ok := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !ok || r.Header.Get("Authorization") != "Bearer t" {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"pods \"none\" not found"}`
		}
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	config := "--kubeconfig=" + kubeconfig(t, server.URL)

	out, err := execute(t, "explain", "pod", "big", config)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Pod shop/big is pending: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.\n",
		"It waits in the unschedulable queue, after 3 attempts.\n",
		"\nNODE  VERDICT  SCORE  WHY\n",
		"\nn1    refused  0      NodeResourcesFit: Insufficient cpu, Insufficient memory\n",
		"\nn2    refused  0      NodeUnschedulable: node(s) were unschedulable\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	out, err = execute(t, "explain", "po", "web", "-n", "other", config)
	if err != nil || !strings.HasPrefix(out, "Pod other/web is on node n1 (scheduler default-scheduler).\n") ||
		!strings.Contains(out, "n1    feasible  310    ImageLocality 10×1, TaintToleration 100×3") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := execute(t, "explain", "pod", "none", config); err == nil || !strings.Contains(err.Error(), `pods "none" not found`) {
		t.Errorf("a pod that is not there: %v", err)
	}
}

func TestTraceDrawsTheLongestTrace(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		q := r.URL.Query()
		var tags map[string]string
		if err := json.Unmarshal([]byte(q.Get("tags")), &tags); err != nil || r.URL.Path != "/api/traces" {
			t.Errorf("asked %s", r.URL)
		}
		if tags["k8s.kind"] != "Deployment" || tags["k8s.namespace"] != "shop" || tags["k8s.name"] != "web" || q.Get("service") != "controllers" {
			fmt.Fprint(w, `{"data":[]}`)
			return
		}
		fmt.Fprint(w, `{"data":[
			{"traceID":"short","processes":{"p":{"serviceName":"controllers"}},"spans":[{"spanID":"1","operationName":"status","processID":"p"}]},
			{"traceID":"long","processes":{"p":{"serviceName":"gateway"},"q":{"serviceName":"scheduler"}},"spans":[
				{"spanID":"2","operationName":"scheduler.bind","startTime":1500,"duration":500,"processID":"q","references":[{"refType":"CHILD_OF","spanID":"1"}],"tags":[{"key":"k8s.name","value":"web-1"}]},
				{"spanID":"1","operationName":"POST /apis","startTime":1000,"duration":1000,"processID":"p"}]}]}`)
	}))
	defer server.Close()
	out, err := execute(t, "trace", "deploy/web", "-n", "shop", "--jaeger", server.URL, "--width", "10")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"trace long: 2 spans of 2 services in 1ms\n",
		"gateway    POST /apis              +0s     1ms    ██████████\n",
		"scheduler    scheduler.bind web-1  +500µs  500µs       █████\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if _, err := execute(t, "trace", "deploy/none", "-n", "shop", "--jaeger", server.URL); err == nil || !strings.Contains(err.Error(), "no trace of Deployment shop/none") {
		t.Errorf("an object without a trace: %v", err)
	}
	status = http.StatusBadGateway
	if _, err := execute(t, "trace", "deploy/web", "--jaeger", server.URL); err == nil || !strings.Contains(err.Error(), "502") {
		t.Errorf("Jaeger that fails: %v", err)
	}
}
