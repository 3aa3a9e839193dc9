package cloudnode

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are Kubernetes' metrics of nodes that wait for a provider. A nil one measures nothing.
type Metrics struct{ synced, untainted prometheus.Histogram }

// NewMetrics registers the metrics. Both tell the same here, since one write completes a node and takes its taint.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Subsystem: "node_controller", Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(1, 4, 6)})
	}
	m := &Metrics{
		synced:    histogram("initial_node_sync_delay_seconds", "How old a node was when it was completed."),
		untainted: histogram("cloud_provider_taint_removal_delay_seconds", "How old a node was when the taint of nodes that wait for a provider was taken away."),
	}
	registerer.MustRegister(m.synced, m.untainted)
	return m
}

// completed measures a node of that age.
func (m *Metrics) completed(age time.Duration) {
	if m != nil {
		m.synced.Observe(age.Seconds())
		m.untainted.Observe(age.Seconds())
	}
}
