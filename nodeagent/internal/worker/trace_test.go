package worker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
)

// The provider is the process's, so this test runs alone.
func TestStartAndEndContinueTheirTraces(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	defer otel.SetTracerProvider(before)

	change := func(last byte) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{15: last}, SpanID: trace.SpanID{7: last}, TraceFlags: trace.FlagsSampled, Remote: true})
	}
	w := newWorld(t)
	m, stop := w.start()
	m.cfg.Trace = func(p *corev1.Pod) trace.SpanContext {
		if p.DeletionTimestamp != nil {
			return change(2)
		}
		return change(1)
	}
	p := newPod("p", "a")
	p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}, PeriodSeconds: 1}
	m.Update(p)
	w.eventually("ready", w.ready(p.UID))
	m.Update(endingPod(p, 1))
	w.eventually("gone", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.deleted) == 1 })
	stop()

	names := map[trace.TraceID][]string{}
	var network sdktrace.ReadOnlySpan
	var sandbox trace.SpanID
	for _, span := range recorder.Ended() {
		id := span.SpanContext().TraceID()
		names[id] = append(names[id], span.Name())
		switch span.Name() {
		case "cni":
			network = span
		case "sandbox":
			sandbox = span.SpanContext().SpanID()
		}
		attributes := map[string]string{}
		for _, a := range span.Attributes() {
			attributes[string(a.Key)] = a.Value.Emit()
		}
		if attributes["k8s.name"] != "p" || attributes["k8s.namespace"] != "ns" || attributes["k8s.uid"] != "uid-p" {
			t.Errorf("%s does not say of which pod it is: %v", span.Name(), attributes)
		}
	}
	for id, want := range map[trace.TraceID][]string{
		change(1).TraceID(): {"cni", "container create", "container start", "image pull", "network policies", "nodeagent.pod start", "probe ready", "sandbox", "volumes"},
		change(2).TraceID(): {"nodeagent.pod stop"},
	} {
		got := names[id]
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("trace %s: %s, want %s", id, strings.Join(got, ", "), strings.Join(want, ", "))
		}
	}
	if network == nil || network.Parent().SpanID() != sandbox || !network.StartTime().Equal(networkBegan) || network.EndTime().Sub(network.StartTime()) != 3*time.Millisecond {
		t.Fatalf("the network's span is not what the plugin told: %+v", network)
	}
	if set := attribute.NewSet(network.Attributes()...); !strings.Contains(set.Encoded(attribute.DefaultEncoder()), "10.1.0.5") {
		t.Errorf("the network's span names no address: %v", network.Attributes())
	}
}
