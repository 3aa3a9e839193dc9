// Package telemetry counts and traces the requests that pass the gateway.
package telemetry

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/gateway/internal/request"
)

// maxResources bounds the values of the resource label: clients choose the
// paths, and every value is a time series for ever.
const maxResources = 1000

// Metrics are the gateway's metrics.
type Metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inflight *prometheus.GaugeVec
	streams  *prometheus.GaugeVec
	aborts   *prometheus.CounterVec

	mu   sync.Mutex
	seen map[string]bool
}

// NewMetrics registers the metrics; a nil registerer leaves them unregistered.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "howdah_gateway_requests_total", Help: "Requests answered, by verb, resource and HTTP code.",
		}, []string{"verb", "resource", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "howdah_gateway_request_duration_seconds", Help: "Time to answer requests that are no streams.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"verb", "resource"}),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "howdah_gateway_inflight", Help: "Requests being answered now that are no streams.",
		}, []string{"kind"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "howdah_gateway_open_streams", Help: "Streams that are open now: watch, log, exec, attach, portforward, proxy.",
		}, []string{"kind"}),
		aborts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_aborts_total", Help: "Answers that were broken off after they had begun, so that nobody takes a part for the whole.",
		}, []string{"verb", "group", "version", "resource", "subresource", "scope"}),
		seen: map[string]bool{},
	}
	if registerer != nil {
		registerer.MustRegister(m.requests, m.seconds, m.inflight, m.streams, m.aborts)
	}
	return m
}

// Begin counts a request in; the function that it returns counts it out.
func (m *Metrics) Begin(info request.Info) (end func(code int)) {
	start := time.Now()
	verb, kind := info.Verb, "reading"
	gauge := m.inflight
	switch {
	case !info.IsResource():
		verb, kind = "document", "document"
	case info.Verb == request.Watch:
		gauge, kind = m.streams, "watch"
	case info.Verb == request.Connect:
		gauge, kind = m.streams, info.Subresource
	case !info.ReadOnly():
		kind = "writing"
	}
	gauge.WithLabelValues(kind).Inc()
	return func(code int) {
		gauge.WithLabelValues(kind).Dec()
		resource := m.label(info, code)
		m.requests.WithLabelValues(verb, resource, strconv.Itoa(code)).Inc()
		if !info.LongRunning() {
			m.seconds.WithLabelValues(verb, resource).Observe(time.Since(start).Seconds())
		}
	}
}

// Aborted counts a request whose answer is broken off.
func (m *Metrics) Aborted(info request.Info, code int) {
	if resource := m.label(info, code); resource == "" || resource == "other" { // clients choose the paths
		info = request.Info{Verb: info.Verb}
	}
	m.aborts.WithLabelValues(strings.ToUpper(info.Verb), info.Group, info.Version, info.Resource, info.Subresource, scope(info)).Inc()
}

// scope is what a request is about, in the words of Kubernetes' metrics.
func scope(info request.Info) string {
	switch {
	case info.Resource == "":
		return ""
	case info.Name != "" || info.Verb == request.Create:
		return "resource"
	case info.Namespace != "":
		return "namespace"
	}
	return "cluster"
}

// label names the resource once a request for it has succeeded.
func (m *Metrics) label(info request.Info, code int) string {
	if !info.IsResource() {
		return ""
	}
	name := info.Resource
	if info.Group != "" {
		name += "." + info.Group
	}
	if info.Subresource != "" {
		name += "/" + info.Subresource
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen[name] {
		return name
	}
	if code >= http.StatusBadRequest || len(m.seen) >= maxResources {
		return "other"
	}
	m.seen[name] = true
	return name
}
