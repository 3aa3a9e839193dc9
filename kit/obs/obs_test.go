package obs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/obs"
)

// tracer records every span whose parent does not say otherwise.
func tracer() (trace.Tracer, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test"), recorder
}

func TestTraceparentRoundTrip(t *testing.T) {
	t.Parallel()
	tr, _ := tracer()
	ctx, span := tr.Start(t.Context(), "span")
	text := obs.Traceparent(ctx)
	back := obs.ParseTraceparent(text)
	if want := span.SpanContext(); back.TraceID() != want.TraceID() || back.SpanID() != want.SpanID() || !back.IsSampled() || !back.IsRemote() {
		t.Errorf("%q came back as %+v", text, back)
	}
	if len(text) != 55 || !strings.HasPrefix(text, "00-") {
		t.Errorf("%q is no W3C traceparent", text)
	}
	if got := obs.Traceparent(t.Context()); got != "" {
		t.Errorf("no trace: %q", got)
	}
	for _, bad := range []string{"", "00", "zz-0123456789abcdef0123456789abcdef-0123456789abcdef-01", "00-00000000000000000000000000000000-0123456789abcdef-01"} {
		if sc := obs.ParseTraceparent(bad); sc.IsValid() {
			t.Errorf("%q was taken for %v", bad, sc)
		}
	}
}

func TestUntraced(t *testing.T) {
	t.Parallel()
	tr, recorder := tracer()
	ctx, parent := tr.Start(t.Context(), "parent")
	quiet := obs.Untraced(ctx)
	quiet, child := tr.Start(quiet, "child")
	child.End()
	_, grandchild := tr.Start(quiet, "grandchild")
	grandchild.End()
	if child.IsRecording() || obs.Traceparent(quiet) != "" {
		t.Error("something is recorded in an untraced context")
	}
	if child.SpanContext().TraceID() == parent.SpanContext().TraceID() {
		t.Error("an untraced context is still in its old trace")
	}
	parent.End()
	if ended := recorder.Ended(); len(ended) != 1 || ended[0].Name() != "parent" {
		t.Errorf("recorded %v", ended)
	}
}

func TestEndAndAttributes(t *testing.T) {
	t.Parallel()
	tr, recorder := tracer()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}
	_, span := tr.Start(t.Context(), "fails", trace.WithAttributes(obs.ObjectAttributes("Pod", pod)...))
	obs.End(span, errors.New("broken"))
	_, span = tr.Start(t.Context(), "succeeds", trace.WithAttributes(obs.KeyAttributes("Pod", "shop", "web")...))
	obs.End(span, nil)
	ended := recorder.Ended()
	if ended[0].Status().Code != codes.Error || ended[0].Status().Description != "broken" || len(ended[0].Events()) != 1 {
		t.Errorf("the failed span has %+v", ended[0].Status())
	}
	if ended[1].Status().Code != codes.Unset || len(ended[1].Events()) != 0 {
		t.Errorf("the other span has %+v", ended[1].Status())
	}
	for i, want := range []string{"k8s.kind=Pod k8s.namespace=shop k8s.name=web k8s.uid=u", "k8s.kind=Pod k8s.namespace=shop k8s.name=web"} {
		var got []string
		for _, a := range ended[i].Attributes() {
			got = append(got, string(a.Key)+"="+a.Value.AsString())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("attributes %v, want %s", got, want)
		}
	}
}

func TestSetupLogsTraceIDs(t *testing.T) { // not parallel: it sets the process's logger
	before := slog.Default()
	defer slog.SetDefault(before)
	var out bytes.Buffer
	finish, err := obs.Setup(t.Context(), obs.Config{Service: "test", LogLevel: "info", LogOutput: &out})
	if err != nil {
		t.Fatal(err)
	}
	defer finish()
	tr, _ := tracer()
	ctx, span := tr.Start(t.Context(), "span")
	slog.InfoContext(ctx, "one", "node", "n")
	slog.With("kind", "Pod").WithGroup("g").InfoContext(ctx, "two")
	slog.Info("three")
	slog.Debug("four")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	var records [3]map[string]any
	for i, line := range lines {
		if err := json.Unmarshal([]byte(line), &records[i]); err != nil {
			t.Fatal(err)
		}
		if records[i]["service"] != "test" {
			t.Errorf("%s lacks its service", line)
		}
	}
	id := span.SpanContext().TraceID().String()
	if records[0]["trace_id"] != id || records[0]["node"] != "n" {
		t.Errorf("got %v, want the trace %s", records[0], id)
	}
	if !strings.Contains(lines[1], id) || records[1]["kind"] != "Pod" {
		t.Errorf("attributes lose the trace id: %s", lines[1])
	}
	if _, has := records[2]["trace_id"]; has {
		t.Error("a record outside of a trace bears an id")
	}
}

func TestSetupRefusesALevelThatItDoesNotKnow(t *testing.T) {
	if _, err := obs.Setup(t.Context(), obs.Config{LogLevel: "loud", LogOutput: io.Discard}); err == nil || !strings.Contains(err.Error(), `"loud"`) {
		t.Errorf("got %v", err)
	}
}

func TestServeMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "test_total", Help: "h"})
	registry.MustRegister(counter)
	counter.Inc()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	if err := obs.ServeMetrics(ctx, address, registry, nil); err == nil || !strings.HasPrefix(err.Error(), "metrics:") {
		t.Errorf("a port that is taken: %v", err)
	}
	_ = listener.Close()
	many := prometheus.NewRegistry()
	many.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "test_of_many", Help: "h"}))
	var ready atomic.Bool
	done := make(chan error)
	go func() {
		done <- obs.ServeMetrics(ctx, address, registry, ready.Load, obs.Page{Path: "/metrics/many", Registry: many})
	}()
	for path, want := range map[string]string{"/metrics": "test_total 1", "/metrics/many": "test_of_many 0", "/healthz": "ok", "/readyz": "not ready", "/debug/pprof/": "goroutine"} {
		if body := fetch(t, "http://"+address+path); !strings.Contains(body, want) {
			t.Errorf("%s answers %q", path, body)
		}
	}
	ready.Store(true)
	if body := fetch(t, "http://"+address+"/readyz"); body != "ok" {
		t.Errorf("/readyz answers %q once it is", body)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("ended with %v", err)
	}
	if err := obs.ServeMetrics(ctx, "", registry, nil); err != nil {
		t.Errorf("no address: %v", err)
	}
}

// fetch reads a page, and waits at first for the server to listen.
func fetch(t *testing.T, address string) string {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		response, err := http.Get(address)
		if err != nil {
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Millisecond)
			continue
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
}
