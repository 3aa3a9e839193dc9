package endpoint

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

type metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	inflight  *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_http_requests_total", Help: "Requests to the node's endpoint.",
		}, []string{"method", "path", "server_type", "long_running"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_http_requests_duration_seconds", Help: "How long they took.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"method", "path", "server_type", "long_running"}),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubelet_http_inflight_requests", Help: "Requests that are being answered.",
		}, []string{"method", "path", "server_type", "long_running"}),
	}
	registerer.MustRegister(m.requests, m.durations, m.inflight)
	return m
}

// buckets are the first parts of paths that are counted by name, and whether they may take long.
var buckets = map[string]bool{
	"healthz": false, "pods": false, "runningpods": false, "stats": false, "metrics": false, "metrics/resource": false, "metrics/cadvisor": false,
	"metrics/probes": false, "configz": false, "flagz": false, "statusz": false, "logs": false, "run": true, "checkpoint": false, "debug": false,
	"containerLogs": true, "exec": true, "attach": true, "portForward": true,
}

func bucket(path string) (name string, long bool) {
	path = strings.Trim(path, "/")
	if long, ok := buckets[path]; ok {
		return path, long
	}
	first, _, _ := strings.Cut(path, "/")
	if first == "metrics" { // each of them counts for itself
		return "other", false
	}
	if long, ok := buckets[first]; ok {
		return first, long
	}
	return "other", false
}

var methods = map[string]bool{
	http.MethodGet: true, http.MethodHead: true, http.MethodPost: true, http.MethodPut: true, http.MethodPatch: true, http.MethodDelete: true,
	http.MethodOptions: true,
}

// observe counts requests, and continues the trace of one that bears it; scrapes, which bear none, are in no trace.
func (m *metrics) observe(kind string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, long := bucket(r.URL.Path)
		method := r.Method
		if !methods[method] {
			method = "other"
		}
		labels := []string{method, path, kind, strconv.FormatBool(long)}
		m.requests.WithLabelValues(labels...).Inc()
		m.inflight.WithLabelValues(labels...).Inc()
		begun := time.Now()
		defer func() {
			m.inflight.WithLabelValues(labels...).Dec()
			m.durations.WithLabelValues(labels...).Observe(time.Since(begun).Seconds())
		}()
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		if trace.SpanContextFromContext(ctx).IsSampled() {
			var span trace.Span
			ctx, span = otel.Tracer("nodeagent").Start(ctx, "nodeagent.endpoint "+path, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
				attribute.String("http.request.method", method), attribute.String("url.path", r.URL.Path)))
			defer span.End()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}
