package rpc

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// callMetrics counts calls under the names that gRPC dashboards expect.
type callMetrics struct {
	handled *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

func newCallMetrics(registerer prometheus.Registerer) callMetrics {
	m := callMetrics{
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grpc_server_handled_total", Help: "Calls completed, by code.",
		}, []string{"grpc_service", "grpc_method", "grpc_code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "grpc_server_handling_seconds", Help: "Time to answer unary calls.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}, []string{"grpc_service", "grpc_method"}),
	}
	if registerer != nil {
		registerer.MustRegister(m.handled, m.seconds)
	}
	return m
}

func (m callMetrics) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	start := time.Now()
	resp, err := handler(ctx, req)
	service, method := split(info.FullMethod)
	m.seconds.WithLabelValues(service, method).Observe(time.Since(start).Seconds())
	m.handled.WithLabelValues(service, method, status.Code(err).String()).Inc()
	return resp, err
}

func (m callMetrics) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	err := handler(srv, stream)
	service, method := split(info.FullMethod)
	m.handled.WithLabelValues(service, method, status.Code(err).String()).Inc()
	return err
}

func split(fullMethod string) (service, method string) {
	service, method, _ = strings.Cut(strings.TrimPrefix(fullMethod, "/"), "/")
	return service, method
}
