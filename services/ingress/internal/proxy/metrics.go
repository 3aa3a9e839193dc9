package proxy

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/services/ingress/internal/route"
)

// Metrics are those of the proxy. Labels are of Ingresses and routes that exist: what went is forgotten.
type Metrics struct {
	requests    *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	unreached   *prometheus.CounterVec
	active      prometheus.Gauge
	connections prometheus.Gauge
	routes      prometheus.Gauge
	faults      prometheus.Gauge
	reloads     prometheus.Counter
	mirrored    *prometheus.CounterVec

	known atomic.Pointer[map[string]bool] // what the table in use is made of
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	of := []string{"kind", "namespace", "name"}
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "howdah_ingress_requests_total", Help: "Requests, by the Ingress or route whose rule they match (none: empty) and the code of the answer; 499 is a client that left.",
		}, append(of, "code")),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "howdah_ingress_request_seconds", Help: "Time from a request's header to the end of its answer.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, of),
		unreached: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "howdah_ingress_endpoint_failures_total", Help: "Connections to endpoints that could not be made.",
		}, of),
		active:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "howdah_ingress_active_requests", Help: "Requests and upgraded connections at the moment."}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Name: "howdah_ingress_connections", Help: "Clients' connections at the moment."}),
		routes:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "howdah_ingress_routes", Help: "Hosts and paths in the routing table."}),
		faults:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "howdah_ingress_faults", Help: "What is wrong with Ingresses, Gateways and their routes; their events say what."}),
		reloads:     prometheus.NewCounter(prometheus.CounterOpts{Name: "howdah_ingress_reloads_total", Help: "Routing tables that were put into use."}),
	}
	m.mirrored = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "howdah_ingress_mirrored_total", Help: "Copies of requests, by what became of them: sent, failed, or dropped, for too many at once or a body that is too long.",
	}, []string{"outcome"})
	registerer.MustRegister(m.mirrored, m.requests, m.seconds, m.unreached, m.active, m.connections, m.routes, m.faults, m.reloads)
	return m
}

// labels are those of a route, none for nil.
func labels(r *route.Route) []string {
	if r == nil {
		return []string{"", "", ""}
	}
	return []string{r.Kind, r.Namespace, r.Name}
}

func (m *Metrics) done(r *route.Route, code int, took time.Duration) {
	if r != nil && !m.knows(r) {
		r = nil // its series have been forgotten
	}
	of := labels(r)
	m.seconds.WithLabelValues(of...).Observe(took.Seconds())
	m.requests.WithLabelValues(append(of, strconv.Itoa(code))...).Inc()
}

func (m *Metrics) unconnected(r *route.Route) {
	if m.knows(r) {
		m.unreached.WithLabelValues(labels(r)...).Inc()
	}
}

func (m *Metrics) knows(r *route.Route) bool {
	known := m.known.Load()
	return known != nil && (*known)[route.Key(r.Kind, r.Namespace, r.Name)]
}

// use takes note of a table.
func (m *Metrics) use(t *route.Table) {
	m.reloads.Inc()
	m.routes.Set(float64(t.Routes))
	m.faults.Set(float64(len(t.Faults)))
	before := m.known.Swap(&t.Known)
	if before == nil {
		return
	}
	for key := range *before {
		if t.Known[key] {
			continue
		}
		parts := strings.Split(key, "/")
		gone := prometheus.Labels{"kind": parts[0], "namespace": parts[1], "name": parts[2]}
		m.requests.DeletePartialMatch(gone)
		m.seconds.DeletePartialMatch(gone)
		m.unreached.DeletePartialMatch(gone)
	}
}
