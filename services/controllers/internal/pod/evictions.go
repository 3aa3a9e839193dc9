package pod

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Evictions measures pods that are ended because of taints, as Kubernetes' controllers do. A nil one measures nothing.
type Evictions struct {
	deletions prometheus.Counter
	latency   prometheus.Histogram
}

// NewEvictions registers the metrics of a controller that ends pods for taints of what they are on or have.
func NewEvictions(registerer prometheus.Registerer, subsystem, of string) *Evictions {
	m := &Evictions{
		deletions: prometheus.NewCounter(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "pod_deletions_total", Help: "Pods that were deleted because of taints of " + of + ".",
		}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: "pod_deletion_duration_seconds", Help: "Time from when a taint of " + of + " took effect to the deletion of a pod.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240},
		}),
	}
	registerer.MustRegister(m.deletions, m.latency)
	return m
}

// Deleted measures a pod that was to go when it was due, the zero time where that is not known.
func (m *Evictions) Deleted(due, now time.Time) {
	if m == nil {
		return
	}
	m.deletions.Inc()
	if !due.IsZero() {
		m.latency.Observe(now.Sub(due).Seconds())
	}
}
