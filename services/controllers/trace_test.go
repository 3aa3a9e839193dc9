package controllers

import (
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	appsv1 "k8s.io/api/apps/v1"

	"howdah.dev/kit/object"
)

// TestOneTrace: what follows from the creation of a Deployment belongs to
// the trace of the request that created it. It runs alone: the tracer
// provider is the process's.
func TestOneTrace(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	before, propagator := otel.GetTracerProvider(), otel.GetTextMapPropagator()
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	t.Cleanup(func() {
		otel.SetTracerProvider(before)
		otel.SetTextMapPropagator(propagator)
	})
	_, client := setup(t, func(c *Config) { c.Enabled = "deployment,replicaset" })

	ctx, span := provider.Tracer("test").Start(t.Context(), "kubectl apply")
	if _, err := object.For(client, object.Deployment).Create(ctx, nginx(3)); err != nil {
		t.Fatal(err)
	}
	span.End()
	await(t, client, object.Deployment, "a status of 3 replicas", func(ds []*appsv1.Deployment) bool {
		return len(ds) == 1 && ds[0].Status.Replicas == 3
	})
	want := map[string]int{"controller.deployment": 0, "controller.replicaset": 0, "howdah.api.v1.ObjectService/Batch": 0, "howdah.api.v1.ObjectService/Update": 0}
	for _, s := range exporter.GetSpans() {
		if s.SpanContext.TraceID() != span.SpanContext().TraceID() {
			continue
		}
		for name := range want {
			if strings.HasPrefix(s.Name, name) {
				want[name]++
			}
		}
	}
	for name, n := range want {
		if n == 0 {
			t.Errorf("no span %q in the request's trace", name)
		}
	}
}
