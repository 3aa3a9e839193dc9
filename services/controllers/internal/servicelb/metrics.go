package servicelb

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are Kubernetes' metrics of load balancers that follow nodes. A nil one measures nothing.
type Metrics struct {
	updates, errors prometheus.Counter
	seconds         prometheus.Histogram
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	const subsystem = "service_controller"
	m := &Metrics{
		updates: prometheus.NewCounter(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "loadbalancer_sync_total", Help: "Load balancers that were to follow nodes.",
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "nodesync_error_total", Help: "Load balancers that could not follow nodes.",
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: "update_loadbalancer_host_latency_seconds", Help: "How long it took a load balancer to follow nodes.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 15),
		}),
	}
	registerer.MustRegister(m.updates, m.errors, m.seconds)
	return m
}

// updated measures that a load balancer was to follow nodes.
func (m *Metrics) updated(took time.Duration, err error) {
	if m == nil {
		return
	}
	m.updates.Inc()
	m.seconds.Observe(took.Seconds())
	if err != nil {
		m.errors.Inc()
	}
}
