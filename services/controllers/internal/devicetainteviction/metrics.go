package devicetainteviction

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are Kubernetes' metrics of evictions for the sake of devices. A nil one measures nothing.
type Metrics struct {
	deletions prometheus.Counter
	latency   prometheus.Histogram
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	const subsystem = "device_taint_eviction_controller"
	m := &Metrics{
		deletions: prometheus.NewCounter(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "pod_deletions_total", Help: "Pods that were deleted because of taints of their devices.",
		}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: "pod_deletion_duration_seconds", Help: "Time from when a taint of a device took effect to the deletion of a pod.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240},
		}),
	}
	registerer.MustRegister(m.deletions, m.latency)
	return m
}

// deleted measures a pod that was to go when it was due.
func (m *Metrics) deleted(due, now time.Time) {
	if m == nil {
		return
	}
	m.deletions.Inc()
	if !due.IsZero() {
		m.latency.Observe(now.Sub(due).Seconds())
	}
}
