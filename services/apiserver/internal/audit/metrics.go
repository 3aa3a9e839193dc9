package audit

import "github.com/prometheus/client_golang/prometheus"

// Metrics has Kubernetes' names.
type Metrics struct {
	events prometheus.Counter
	levels *prometheus.CounterVec
	errors *prometheus.CounterVec
	// rejected are requests that were refused because an event was lost.
	rejected prometheus.Counter
}

// NewMetrics registers the metrics; a nil registerer leaves them unregistered.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		events: prometheus.NewCounter(prometheus.CounterOpts{Name: "apiserver_audit_event_total", Help: "Audit events that were made."}),
		levels: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_audit_level_total", Help: "Audit events by the policy's level."}, []string{"level"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_audit_error_total", Help: "Audit events that were lost, by backend."}, []string{"plugin"}),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_audit_requests_rejected_total", Help: "Requests that were refused because their audit event could not be written.",
		}),
	}
	if registerer != nil {
		registerer.MustRegister(m.events, m.levels, m.errors, m.rejected)
	}
	return m
}

func (m *Metrics) event(level string) {
	m.events.Inc()
	m.level(level)
}

func (m *Metrics) level(level string) { m.levels.WithLabelValues(level).Inc() }

func (m *Metrics) lost(backend string, n int) { m.errors.WithLabelValues(backend).Add(float64(n)) }
