package lb

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"howdah.dev/nodeagent/bpf"
	"howdah.dev/nodeagent/internal/pinned"
)

func traced(last byte) context.Context {
	return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{15: last}, SpanID: trace.SpanID{7: last}, TraceFlags: trace.FlagsSampled,
	}))
}

// memorySyncer is a balancer without a kernel.
func memorySyncer(t *testing.T, cfg Config, m Maps) *syncer {
	t.Helper()
	cfg.Node, cfg.At = Node{Name: testNode}, Attachment{Cgroup: "-", Pins: "-"}
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return newSyncer(b, m)
}

// switched fails as many writes as it is told to.
type switched struct {
	pinned.Map[bpf.LBFrontendKey, bpf.LBFrontend]
	fail *int
}

func (s switched) Put(k bpf.LBFrontendKey, v bpf.LBFrontend) error {
	if *s.fail > 0 {
		*s.fail--
		return errInjected
	}
	return s.Map.Put(k, v)
}

func TestSpanOfAnUpdate(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("lb")
	m := memoryMaps()
	fail := 0
	m.Frontends = switched{m.Frontends, &fail}
	s := memorySyncer(t, Config{Tracer: tracer}, m)
	s.Update(traced(1), service("web", "10.96.0.10", tcp(80)))
	first, second := endpointSlice("web", 8080, "10.77.0.1"), endpointSlice("web", 8080, "10.77.0.1", "10.77.0.2")
	first.ResourceVersion, second.ResourceVersion = "7", "8"
	s.Update(traced(2), first)
	s.Update(traced(3), second)
	if err := s.sync(context.Background(), false); err != nil {
		t.Fatal(err)
	}
	spans := recorder.Ended()
	if len(spans) != 1 {
		t.Fatalf("%d spans, want one for the merged changes", len(spans))
	}
	span := spans[0]
	if span.Name() != "lb.update" || span.Parent().TraceID() != (trace.TraceID{15: 3}) {
		t.Errorf("span %s of trace %s, want lb.update of the newest change's", span.Name(), span.Parent().TraceID())
	}
	if len(span.Links()) != 2 {
		t.Errorf("%d links, want the two older changes", len(span.Links()))
	}
	want := attribute.NewSet(
		attribute.String("k8s.kind", "Service"), attribute.String("k8s.namespace", "default"), attribute.String("k8s.name", "web"),
		attribute.Int("endpoints", 2), attribute.String("revision", "8"))
	if got := attribute.NewSet(span.Attributes()...); !got.Equals(&want) {
		t.Errorf("attributes %v", span.Attributes())
	}

	// Nothing to write, nothing to tell.
	s.Update(traced(4), second)
	if err := s.sync(context.Background(), false); err != nil || len(recorder.Ended()) != 1 {
		t.Errorf("an unchanged slice: %v, %d spans", err, len(recorder.Ended()))
	}

	// A failure shows, and the retry goes on in the same trace.
	fail = 1
	s.Update(traced(5), first)
	if err := s.sync(context.Background(), false); err == nil {
		t.Error("the injected fault is lost")
	}
	if got := recorder.Ended(); len(got) != 2 || got[1].Status().Code != codes.Error {
		t.Errorf("%d spans after a failure, want a second with an error", len(got))
	}
	if err := s.sync(context.Background(), false); err != nil {
		t.Fatal(err)
	}
	if got := recorder.Ended(); len(got) != 3 || got[2].Status().Code == codes.Error || got[2].Parent().TraceID() != (trace.TraceID{15: 5}) {
		t.Errorf("%d spans after the retry, want a third, in the same trace and with no error", len(got))
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := memorySyncer(t, Config{Metrics: reg}, memoryMaps())
	s.Update(context.Background(), service("web", "10.96.0.10", tcp(80), udp(53)))
	s.Update(context.Background(), endpointSlice("web", 8080, "10.77.0.1", "10.77.0.2", "10.77.0.3"))
	if err := s.sync(context.Background(), false); err != nil {
		t.Fatal(err)
	}
	err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP howdah_lb_backends Backends in the maps; frontends with equal backends share them.
# TYPE howdah_lb_backends gauge
howdah_lb_backends 3
# HELP howdah_lb_frontends Frontends in the maps: addresses and ports that can be dialled.
# TYPE howdah_lb_frontends gauge
howdah_lb_frontends 2
# HELP howdah_lb_services Objects (services, pods with hostPorts) that have frontends in the maps.
# TYPE howdah_lb_services gauge
howdah_lb_services 1
`), "howdah_lb_services", "howdah_lb_frontends", "howdah_lb_backends")
	if err != nil {
		t.Error(err)
	}
}

func TestConfigReportsEverything(t *testing.T) {
	_, err := New(Config{})
	for _, want := range []string{"Node.Name", "At.Cgroup", "At.Pins"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}
