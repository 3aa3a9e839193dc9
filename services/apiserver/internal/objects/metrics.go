package objects

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts requests under the names that dashboards for Kubernetes expect.
type Metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	current   *prometheus.GaugeVec
	watchers  *prometheus.GaugeVec
	retries   prometheus.Counter
	// Panics counts handlers that panicked.
	Panics prometheus.Counter
}

// NewMetrics registers the metrics; a nil registerer leaves them unregistered.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total", Help: "Requests by verb, resource and HTTP code.",
		}, []string{"verb", "group", "version", "resource", "subresource", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_request_duration_seconds", Help: "Time to answer requests, watches and streams excepted.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}, []string{"verb", "group", "resource"}),
		current: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_current_inflight_requests", Help: "Requests that are being answered.",
		}, []string{"request_kind"}),
		watchers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_registered_watchers", Help: "Watches that stand.",
		}, []string{"group", "version", "kind"}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_write_retries_total", Help: "Writes that were planned again because the object had moved on.",
		}),
		Panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_panics_total", Help: "Handlers that panicked.",
		}),
	}
	if registerer != nil {
		registerer.MustRegister(m.requests, m.durations, m.current, m.watchers, m.retries, m.Panics)
	}
	return m
}

func (m *Metrics) inflight(r *request, by float64) {
	kind := "mutating"
	switch r.verb {
	case "get", "list":
		kind = "readOnly"
	case "watch", "connect":
		kind = "longRunning"
	}
	m.current.WithLabelValues(kind).Add(by)
}

// observe counts a request. Resources that are not served share one label, so that callers cannot make labels.
func (m *Metrics) observe(r *request, code int32) {
	var group, version, resource, subresource string
	if r.res != nil {
		group, version, resource, subresource = r.res.GVR.Group, r.res.GVR.Version, r.res.GVR.Resource, r.subresource
		if _, known := knownSubresources[subresource]; !known {
			subresource = ""
		}
	}
	verb := strings.ToUpper(r.verb)
	m.requests.WithLabelValues(verb, group, version, resource, subresource, strconv.Itoa(int(code))).Inc()
	if !r.long {
		m.durations.WithLabelValues(verb, group, resource).Observe(time.Since(r.start).Seconds())
	}
}

var knownSubresources = map[string]struct{}{
	"status": {}, "scale": {}, "binding": {}, "eviction": {}, "token": {}, "finalize": {}, "log": {}, "exec": {},
	"attach": {}, "portforward": {}, "proxy": {}, "ephemeralcontainers": {}, "resize": {},
}
