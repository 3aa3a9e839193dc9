package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// span is a span as Jaeger returns it.
type span struct {
	Name    string `json:"operationName"`
	Process string `json:"processID"`
	Tags    []struct {
		Key   string `json:"key"`
		Value any    `json:"value"`
	} `json:"tags"`
}

type jaegerTrace struct {
	ID        string `json:"traceID"`
	Spans     []span `json:"spans"`
	Processes map[string]struct {
		Service string `json:"serviceName"`
	} `json:"processes"`
}

// has reports whether a service recorded a span whose name begins so.
func (t jaegerTrace) has(service, name string) bool {
	return slices.ContainsFunc(t.Spans, func(s span) bool {
		return t.Processes[s.Process].Service == service && strings.HasPrefix(s.Name, name)
	})
}

func (t jaegerTrace) names() string {
	seen := map[string]int{}
	for _, s := range t.Spans {
		seen[t.Processes[s.Process].Service+": "+s.Name]++
	}
	var names []string
	for name, n := range seen {
		names = append(names, fmt.Sprintf("%4d %s", n, name))
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[5:], b[5:]) })
	return strings.Join(names, "\n")
}

// flow is what ONE trace of an apply must show, in the order of events.
var flow = []struct{ service, span string }{
	{"gateway", "POST /apis/extensions/v1beta1/namespaces/"},
	{"apiserver", "authenticate"},
	{"apiserver", "authorize"},
	{"apiserver", "admission"},
	{"apiserver", "commit"},
	{"controllers", "controller.deployment"},
	{"controllers", "controller.replicaset"},
	{"scheduler", "scheduler.schedule"},
	{"scheduler", "scheduler.queue"},
	{"scheduler", "scheduler.filters"},
	{"scheduler", "scheduler.scores"},
	{"scheduler", "scheduler.bind"},
	{"nodeagent", "sandbox"},
	{"nodeagent", "cni"},
	{"nodeagent", "image"},
	{"nodeagent", "container create"},
	{"nodeagent", "container start"},
	{"nodeagent", "status"},
	{"controllers", "controller.endpointslice"},
	{"nodeagent", "lb.update"},
}

func TestOneTraceOfAnApply(t *testing.T) {
	c := setup(t)
	c.apply(`{apiVersion: v1, kind: Service, metadata: {name: nginx}, spec: {selector: {app: nginx}, ports: [{port: 80}]}}`)
	manifest, err := os.ReadFile("testdata/nginx-deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.apply(string(manifest))
	c.kubectl("rollout", "status", "deploy/nginx-deployment", "--timeout=180s")

	var best jaegerTrace
	missing := func() (out []string) {
		best = c.applyTrace()
		for _, want := range flow {
			if !best.has(want.service, want.span) {
				out = append(out, want.service+": "+want.span)
			}
		}
		return out
	}
	deadline := time.Now().Add(2 * time.Minute)
	for len(missing()) > 0 && time.Now().Before(deadline) {
		time.Sleep(500 * time.Millisecond) // spans are sent in batches
	}
	if lost := missing(); len(lost) > 0 {
		t.Fatalf("trace %s lacks %q; it has\n%s", best.ID, lost, best.names())
	}

	howdah := filepath.Join("..", "..", ".build", "bin", "howdah")
	out, err := run(time.Minute, "", howdah, "trace", "deploy/nginx-deployment", "-n", c.namespace, "--jaeger", os.Getenv(jaegerVariable))
	if err != nil {
		t.Fatal(err)
	}
	mustMatch(t, out, `scheduler +.*scheduler.bind`)
	mustMatch(t, out, `█`)
}

// applyTrace returns the trace in which the Deployment controller acted on
// this namespace's nginx-deployment, the one with the most spans.
func (c *cluster) applyTrace() jaegerTrace {
	c.t.Helper()
	tags, _ := json.Marshal(map[string]string{"k8s.namespace": c.namespace, "k8s.name": "nginx-deployment"})
	var answer struct {
		Data []jaegerTrace `json:"data"`
	}
	query(c.t, os.Getenv(jaegerVariable)+"/api/traces?"+url.Values{
		"service": {"controllers"}, "tags": {string(tags)}, "limit": {"50"}, "lookback": {"1h"},
	}.Encode(), &answer)
	var best jaegerTrace
	for _, trace := range answer.Data {
		if len(trace.Spans) > len(best.Spans) {
			best = trace
		}
	}
	return best
}

// query reads a JSON document.
func query(t *testing.T, address string, into any) {
	t.Helper()
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s (%v)", address, response.Status, body, err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("%s: %v", address, err)
	}
}
