package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/authn"
)

const everything = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: %s}]\n"

// webhookFor writes the configuration of a log that sends to a receiver.
func webhookFor(t *testing.T, url string, change func(*WebhookConfig)) *Log {
	t.Helper()
	dir := t.TempDir()
	policy, kubeconfig := filepath.Join(dir, "policy"), filepath.Join(dir, "kubeconfig")
	text := fmt.Sprintf(`{"kind":"Config","apiVersion":"v1","clusters":[{"name":"a","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],"users":[{"name":"a","user":{"token":"t"}}],
		"contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],"current-context":"a"}`, url)
	for path, text := range map[string]string{policy: fmt.Sprintf(everything, "Metadata"), kubeconfig: text} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg := WebhookConfig{ConfigFile: kubeconfig, InitialBackoff: time.Millisecond, Delivery: Delivery{
		Mode: ModeBatch, BufferSize: 10_000, MaxWait: 10 * time.Millisecond, MaxSize: 7, Throttle: true, QPS: 1000, Burst: 1000,
	}}
	change(&cfg)
	l, err := New(Config{PolicyFile: policy, Webhook: cfg, Metrics: NewMetrics(nil), Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// fileFor is a log of all requests at a level, and the path of its file.
func fileFor(t *testing.T, level string, how Delivery) (l *Log, path string) {
	t.Helper()
	dir := t.TempDir()
	policy, path := filepath.Join(dir, "policy"), filepath.Join(dir, "log")
	if err := os.WriteFile(policy, []byte(fmt.Sprintf(everything, level)), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := New(Config{PolicyFile: policy, File: FileConfig{Path: path, Delivery: how}, Metrics: NewMetrics(nil), Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	return l, path
}

func requestOf(name string) *Request {
	return &Request{User: &authn.User{Name: "jane"}, Verb: "get", Version: "v1", Resource: "pods", Namespace: "a", Name: name, Origin: Origin{AuditID: name}}
}

// TestWebhook loses nothing to a receiver that fails now and then, and nothing at the end.
func TestWebhook(t *testing.T) {
	t.Parallel()
	var calls, got atomic.Int64
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t" {
			t.Errorf("authorization %q", r.Header.Get("Authorization"))
		}
		if calls.Add(1)%3 == 0 {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		var list auditv1.EventList
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil || list.Kind != "EventList" || len(list.Items) == 0 || len(list.Items) > 7 {
			t.Errorf("%+v %v", list.TypeMeta, err)
		}
		got.Add(int64(len(list.Items)))
	}))
	defer receiver.Close()
	l := webhookFor(t, receiver.URL, func(*WebhookConfig) {})
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- l.Run(ctx) }()
	for n := range 100 {
		l.Begin(requestOf(fmt.Sprint(n))).End(200, nil, "", nil)
	}
	for deadline := time.Now().Add(time.Minute); got.Load() < 200; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of 200 events came", got.Load())
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if n := testutil.ToFloat64(l.metrics.events); n != 200 {
		t.Errorf("%v events are counted", n)
	}
}

// TestWebhookThatHangs loses events, and never keeps a request waiting.
func TestWebhookThatHangs(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer receiver.Close()
	defer close(release)
	l := webhookFor(t, receiver.URL, func(c *WebhookConfig) { c.Delivery.BufferSize = 10 })
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- l.Run(ctx) }()
	for n := range 100 {
		l.Begin(requestOf(fmt.Sprint(n))).End(200, nil, "", nil)
	}
	if lost := testutil.ToFloat64(l.metrics.errors.WithLabelValues("buffered")); lost == 0 {
		t.Error("nothing was lost, though the buffer holds 10")
	}
	cancel()
	<-ran
}

func TestEntry(t *testing.T) {
	t.Parallel()
	l, path := fileFor(t, "RequestResponse", Delivery{})
	r := requestOf("x")
	r.Body, r.ContentType = []byte{0x6b, 0x38, 0x73, 0x00, 0xff}, "application/vnd.kubernetes.protobuf" // no object
	e := l.Begin(r)
	e.Annotate("a", "first")
	e.Annotate("a", "second")
	e.Panicked()
	e.End(500, nil, "", fmt.Errorf("boom"))
	e.End(200, nil, "", nil) // it has ended
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"stage":"RequestReceived"`) || !strings.Contains(lines[1], `"stage":"Panic"`) ||
		!strings.Contains(lines[1], `"a":"first"`) || !strings.Contains(lines[1], `"code":500`) || !strings.Contains(lines[1], `"kind":"Unknown"`) {
		t.Errorf("%s", data)
	}
	var none *Entry // of a request that is not recorded
	none.Annotate("a", "b")
	none.Name("x")
	none.Started(200)
	none.Panicked()
	none.End(200, nil, "", nil)
}

func TestBatchedFileIsWrittenAtTheEnd(t *testing.T) {
	t.Parallel()
	l, path := fileFor(t, "Metadata", Delivery{Mode: ModeBatch, BufferSize: 10_000, MaxSize: 100})
	for n := range 500 {
		l.Begin(requestOf(fmt.Sprint(n))).End(200, nil, "", nil)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Run(ctx); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Count(string(data), "\n") != 1000 {
		t.Errorf("%d lines, %v", strings.Count(string(data), "\n"), err)
	}
}

// A request that ends after the server was told to stop is recorded to its end.
func TestRequestsThatEndWithTheServer(t *testing.T) {
	t.Parallel()
	l, path := fileFor(t, "Metadata", Delivery{})
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- l.Run(ctx) }()
	one, other := l.Begin(requestOf("one")), l.Begin(requestOf("other"))
	one.End(200, nil, "", nil)
	cancel()
	select {
	case <-ran:
		t.Fatal("it has ended before the request")
	case <-time.After(100 * time.Millisecond):
	}
	other.End(200, nil, "", nil)
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Count(string(data), `"stage":"ResponseComplete"`) != 2 {
		t.Errorf("%v %s", err, data)
	}
}

func BenchmarkMetadata(b *testing.B) {
	dir := b.TempDir()
	policy := filepath.Join(dir, "policy")
	if err := os.WriteFile(policy, []byte(fmt.Sprintf(everything, "Metadata")), 0o600); err != nil {
		b.Fatal(err)
	}
	l, err := New(Config{PolicyFile: policy, File: FileConfig{Path: filepath.Join(dir, "log")}, Metrics: NewMetrics(nil), Clock: clock.RealClock{}})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		l.Begin(requestOf("x")).End(200, nil, "", nil)
	}
}

// TestPath has the URIs of requests that came without one.
func TestPath(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]Request{
		"/version":                               {Path: "/version"},
		"/api/v1/nodes":                          {Version: "v1", Resource: "nodes"},
		"/api/v1/namespaces/a/pods/p/status":     {Version: "v1", Resource: "pods", Namespace: "a", Name: "p", Subresource: "status"},
		"/apis/apps/v1/namespaces/a/deployments": {Group: "apps", Version: "v1", Resource: "deployments", Namespace: "a"},
		"/api/v1/namespaces/a/finalize":          {Version: "v1", Resource: "namespaces", Namespace: "a", Name: "a", Subresource: "finalize"},
	} {
		if got := r.path(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
