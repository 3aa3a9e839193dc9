package apiserver

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/services/apiserver/internal/store"
)

// measured counts what is asked of the database, by kind, under the names that dashboards for Kubernetes read.
type measured struct {
	backend
	requests requests
}

// requests has the labels operation (create, update, delete, get, list), group and resource.
type requests struct {
	seconds        *prometheus.HistogramVec
	count, failure *prometheus.CounterVec
}

func newRequests(registerer prometheus.Registerer) requests {
	labels := []string{"operation", "group", "resource"}
	r := requests{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "etcd_request_duration_seconds", Help: "Time that requests to the database took, with their wait for a place in a commit.",
			Buckets: []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60},
		}, labels),
		count:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "etcd_requests_total", Help: "Requests to the database."}, labels),
		failure: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "etcd_request_errors_total", Help: "Requests that the database did not answer."}, labels),
	}
	if registerer != nil {
		registerer.MustRegister(r.seconds, r.count, r.failure)
	}
	return r
}

// done notes a request that began at start.
func (r requests) done(operation, key string, start time.Time, err error) {
	group, resource := kindOf(key)
	r.seconds.WithLabelValues(operation, group, resource).Observe(time.Since(start).Seconds())
	r.count.WithLabelValues(operation, group, resource).Inc()
	if errors.Is(err, context.Canceled) { // by whoever asked
		return
	}
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrOverQuota) {
		r.failure.WithLabelValues(operation, group, resource).Inc()
	}
}

// kindOf returns group and resource of a key, "/group/resource/…" with "core" for the core group.
func kindOf(key string) (group, resource string) {
	parts := strings.SplitN(key, "/", 4)
	if len(parts) < 3 {
		return "", ""
	}
	if group = parts[1]; group == "core" {
		group = ""
	}
	return group, parts[2]
}

func operationOf(op store.Op) string {
	switch op {
	case store.Create:
		return "create"
	case store.Delete:
		return "delete"
	}
	return "update"
}

// Write implements store.Writer.
func (m measured) Write(ctx context.Context, w store.Write) store.Result {
	start := time.Now()
	result := m.backend.Write(ctx, w)
	m.requests.done(operationOf(w.Op), w.Key, start, result.Err)
	return result
}

// WriteAtomic implements store.Writer.
func (m measured) WriteAtomic(ctx context.Context, ws []store.Write) ([]store.Result, error) {
	start := time.Now()
	results, err := m.backend.WriteAtomic(ctx, ws)
	for _, w := range ws {
		m.requests.done(operationOf(w.Op), w.Key, start, err)
	}
	return results, err
}

// Get implements store.Reader.
func (m measured) Get(ctx context.Context, key string) (store.Entry, error) {
	start := time.Now()
	entry, err := m.backend.Get(ctx, key)
	m.requests.done("get", key, start, err)
	return entry, err
}

// List implements store.Reader.
func (m measured) List(ctx context.Context, q store.Query) (store.Page, error) {
	start := time.Now()
	page, err := m.backend.List(ctx, q)
	m.requests.done("list", q.Prefix, start, err)
	return page, err
}
