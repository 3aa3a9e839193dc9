package signer

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// metrics have Kubernetes' names.
type metrics struct {
	fetched, data *prometheus.GaugeVec
	fetches       *prometheus.CounterVec
	signed        *prometheus.CounterVec
	seconds       *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	const prefix = "apiserver_externaljwt_"
	m := &metrics{
		fetched: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "fetch_keys_success_timestamp", Help: "When keys were last fetched, in seconds of the epoch."}, nil),
		data:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "fetch_keys_data_timestamp", Help: "As of when the signer knows its keys, in seconds of the epoch."}, nil),
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "fetch_keys_request_total", Help: "Calls for keys, by what came of them."}, []string{"code"}),
		signed:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "sign_request_total", Help: "Tokens that were to be signed, by what came of them."}, []string{"code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "request_duration_seconds", Help: "Time that calls of the signer take.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"method", "code"}),
	}
	if registerer != nil {
		registerer.MustRegister(m.fetched, m.data, m.fetches, m.signed, m.seconds)
	}
	return m
}

func (m *metrics) fetch(err error, now time.Time) {
	m.fetches.WithLabelValues(code(err)).Inc()
	if err == nil {
		m.fetched.WithLabelValues().Set(float64(now.UnixNano()) / float64(time.Second))
	}
}

// measure is the interceptor of calls.
func (m *metrics) measure(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
	began := time.Now()
	err := call(ctx, method, request, answer, conn, options...)
	m.seconds.WithLabelValues(method, code(err)).Observe(time.Since(began).Seconds())
	return err
}

// code names what came of a call. What was wrong with the answer has none.
func code(err error) string {
	if err == nil {
		return codes.OK.String()
	}
	if s, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err); ok {
		return s.GRPCStatus().Code().String()
	}
	return "unknown-non-grpc"
}
