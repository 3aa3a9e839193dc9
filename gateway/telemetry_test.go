package gateway_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"howdah.dev/gateway"
)

// spans receives every span that is recorded; otelhttp takes its provider
// from the process, so all tests share one.
var spans = tracetest.NewSpanRecorder()

func TestMain(m *testing.M) {
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	code := m.Run()
	_ = provider.Shutdown(context.Background())
	os.Exit(code)
}

func spansOf(id string) []sdktrace.ReadOnlySpan {
	var found []sdktrace.ReadOnlySpan
	for _, span := range spans.Ended() {
		if span.SpanContext().TraceID().String() == id {
			found = append(found, span)
		}
	}
	return found
}

// A gateway that leaves reads out traces those whose callers do, and writes.
func TestUntracedReads(t *testing.T) {
	t.Parallel()
	c := setup(t, func(config *gateway.Config) { config.UntracedReads = 1 })
	client := c.client("admin")
	const path, mine = "/api/v1/namespaces/untraced/configmaps", "1bf7651916cd43dd8448eb211c80319d"
	id := func(method, path, body string, headers ...string) string {
		t.Helper()
		return c.do(client, method, path, body, headers...).Header.Get("X-Howdah-Trace-Id")
	}
	if got := id("POST", path, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`); len(got) != 32 {
		t.Errorf("a write has the trace %q", got)
	}
	for _, read := range []string{path, path + "/c"} {
		if got := id("GET", read, ""); got != "" {
			t.Errorf("a read has the trace %q", got)
		}
	}
	if got := id("GET", path+"/c", "", "Traceparent: 00-"+mine+"-b7ad6b7169203331-01"); got != mine {
		t.Errorf("a read that its caller traces has the trace %q", got)
	}
}

func TestTraces(t *testing.T) {
	t.Parallel()
	c := setup(t)
	client := c.client("admin")
	const mine = "0af7651916cd43dd8448eb211c80319c"
	body := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"}}`
	got := c.do(client, "POST", "/apis/apps/v1/namespaces/traced/deployments", body, "Traceparent: 00-"+mine+"-b7ad6b7169203331-01")
	if got.Header.Get("X-Howdah-Trace-Id") != mine {
		t.Fatalf("the caller's trace does not go on: %v", got.Header)
	}
	// Small answers leave when their handler returns, so their spans have ended.
	var names []string
	for _, span := range spansOf(mine) {
		names = append(names, span.Name())
		if span.SpanKind() != trace.SpanKindServer || !strings.HasPrefix(span.Name(), "POST") {
			continue
		}
		attributes := map[string]string{}
		for _, a := range span.Attributes() {
			attributes[string(a.Key)] = a.Value.Emit()
		}
		for key, want := range map[string]string{
			"k8s.verb": "create", "k8s.group": "apps", "k8s.resource": "deployments", "k8s.namespace": "traced", "http.request.method": "POST", "http.response.status_code": "201",
		} {
			if attributes[key] != want {
				t.Errorf("%s is %q, want %q", key, attributes[key], want)
			}
		}
	}
	for _, want := range []string{"POST /apis/apps/v1/namespaces/{namespace}/deployments", "howdah.api.v1.ObjectService/Create"} {
		if !slices.Contains(names, want) {
			t.Errorf("spans %v lack %s", names, want)
		}
	}

	fresh := c.do(client, "GET", "/apis/apps/v1/namespaces/traced/deployments/d", "")
	if id := fresh.Header.Get("X-Howdah-Trace-Id"); len(id) != 32 || id == mine {
		t.Errorf("a trace of its own: %q", id)
	}
	for _, path := range []string{"/readyz", "/apis", "/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion=5", "/apis/coordination.k8s.io/v1/namespaces/a/leases/l"} {
		if got := c.do(client, "GET", path, ""); got.Header.Get("X-Howdah-Trace-Id") != "" {
			t.Errorf("%s is traced", path)
		}
	}
	for _, span := range spans.Ended() {
		for _, name := range []string{"Watch", "Document"} {
			// A write to a path that is a document's looks for it, as a part of its own trace.
			if strings.HasSuffix(span.Name(), "/"+name) && !span.Parent().IsValid() {
				t.Errorf("%s is recorded on its own", span.Name())
			}
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	c := setup(t, func(config *gateway.Config) { config.Registerer = registry })
	client := c.client("admin")
	c.do(client, "GET", "/api/v1/pods", "")
	c.do(client, "GET", "/api/v1/pods/x", "")
	c.do(client, "GET", "/api/v1/never-heard-of/x", "")
	c.do(client, "GET", "/version", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := c.watch(ctx, client, "/api/v1/pods?watch=1")
	want := `
# HELP howdah_gateway_open_streams Streams that are open now: watch, log, exec, attach, portforward, proxy.
# TYPE howdah_gateway_open_streams gauge
howdah_gateway_open_streams{kind="watch"} 1
# HELP howdah_gateway_requests_total Requests answered, by verb, resource and HTTP code.
# TYPE howdah_gateway_requests_total counter
howdah_gateway_requests_total{code="200",resource="",verb="document"} 1
howdah_gateway_requests_total{code="200",resource="pods",verb="list"} 1
howdah_gateway_requests_total{code="404",resource="other",verb="get"} 1
howdah_gateway_requests_total{code="404",resource="pods",verb="get"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "howdah_gateway_requests_total", "howdah_gateway_open_streams"); err != nil {
		t.Error(err)
	}
	_ = w.Close()
}

func TestAbortedAnswersAreCounted(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	c := setup(t, func(config *gateway.Config) { config.Registerer = registry })
	client := c.client("admin")
	c.do(client, "POST", "/api/v1/namespaces/a/configmaps", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c"},"data":{"k":"`+strings.Repeat("v", 1<<20)+`"}}`)
	c.Pieces = 100
	for _, path := range []string{"/api/v1/configmaps", "/api/v1/namespaces/a/configmaps"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(answer.Body); err == nil {
			t.Errorf("%s ended well: %.300s", path, body)
		}
		_ = answer.Body.Close()
	}
	want := `
# HELP apiserver_request_aborts_total Answers that were broken off after they had begun, so that nobody takes a part for the whole.
# TYPE apiserver_request_aborts_total counter
apiserver_request_aborts_total{group="",resource="configmaps",scope="cluster",subresource="",verb="LIST",version="v1"} 1
apiserver_request_aborts_total{group="",resource="configmaps",scope="namespace",subresource="",verb="LIST",version="v1"} 1
# HELP howdah_gateway_inflight Requests being answered now that are no streams.
# TYPE howdah_gateway_inflight gauge
howdah_gateway_inflight{kind="reading"} 0
howdah_gateway_inflight{kind="writing"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "apiserver_request_aborts_total", "howdah_gateway_inflight"); err != nil {
		t.Error(err)
	}
}
