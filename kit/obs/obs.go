// Package obs gives a service its logs, traces and metrics: slog JSON with
// trace ids, OpenTelemetry spans over OTLP, and Prometheus on /metrics.
package obs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Config says where telemetry goes.
type Config struct {
	Service     string    // service.name, as in "apiserver"
	Instance    string    // service.instance.id, as in the host's name
	Endpoint    string    // OTLP gRPC host:port; empty switches tracing off
	SampleRatio float64   // share of new traces that are recorded, 0 to 1
	LogLevel    string    // debug, info, warn or error
	LogOutput   io.Writer // where logs go
	// Level becomes what decides which records are kept, so that it can be changed while the process runs; may be nil.
	Level *slog.LevelVar
}

// Setup makes the process's logger and tracer provider the default ones. The
// returned function flushes and ends tracing; it waits at most 3 s.
func Setup(ctx context.Context, cfg Config) (func(), error) {
	level := cfg.Level
	if level == nil {
		level = &slog.LevelVar{}
	}
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err != nil {
		return nil, fmt.Errorf("log level %q: %w", cfg.LogLevel, err)
	}
	handler := slog.NewJSONHandler(cfg.LogOutput, &slog.HandlerOptions{Level: level})
	slog.SetDefault(slog.New(traceHandler{handler}).With("service", cfg.Service))

	otel.SetTextMapPropagator(propagation.TraceContext{})
	if cfg.Endpoint == "" {
		otel.SetTracerProvider(noop.NewTracerProvider())
		return func() {}, nil
	}
	exporter, err := otlptracegrpc.New(ctx,
		otlptracegrpc.WithEndpoint(cfg.Endpoint), otlptracegrpc.WithInsecure(), otlptracegrpc.WithTimeout(5*time.Second))
	if err != nil {
		return nil, fmt.Errorf("trace exporter: %w", err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithBatchTimeout(time.Second), sdktrace.WithMaxQueueSize(16384)),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.SampleRatio))),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", cfg.Service),
			attribute.String("service.instance.id", cfg.Instance),
		)),
	)
	otel.SetTracerProvider(provider)
	// A collector that is away must not flood the log; the exporter retries by itself.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { slog.Debug("telemetry", "err", err) }))
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			slog.Debug("end tracing", "err", err)
		}
	}, nil
}

// traceHandler adds the trace id of the context to every record.
type traceHandler struct{ slog.Handler }

func (h traceHandler) Handle(ctx context.Context, r slog.Record) error {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		r.AddAttrs(slog.String("trace_id", sc.TraceID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traceHandler{h.Handler.WithAttrs(attrs)}
}

func (h traceHandler) WithGroup(name string) slog.Handler {
	return traceHandler{h.Handler.WithGroup(name)}
}
