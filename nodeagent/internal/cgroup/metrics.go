package cgroup

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Measure has the tree tell how long changes of pods' groups take, and of which version they are.
func (t *Tree) Measure(registerer prometheus.Registerer) {
	t.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "kubelet_cgroup_manager_duration_seconds", Help: "How long it took to make pods' control groups, to set their limits, and to remove them.", Buckets: prometheus.DefBuckets,
	}, []string{"operation_type"})
	version := prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubelet_cgroup_version", Help: "Version of the control groups."})
	version.Set(1)
	if t.unified {
		version.Set(2)
	}
	registerer.MustRegister(t.seconds, version)
}

// took tells of an operation that began then, and returns when the next one begins.
func (t *Tree) took(operation string, began time.Time) time.Time {
	now := time.Now()
	if t.seconds != nil {
		t.seconds.WithLabelValues(operation).Observe(now.Sub(began).Seconds())
	}
	return now
}
