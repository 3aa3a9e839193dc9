package nodelifecycle

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are Kubernetes' metrics of nodes and their zones. A nil one measures nothing.
type Metrics struct {
	size, health, sick *prometheus.GaugeVec
	evictions          *prometheus.CounterVec
	update             prometheus.Histogram
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	const subsystem = "node_collector"
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: subsystem, Name: name, Help: help}, []string{"zone"})
	}
	m := &Metrics{
		size:   gauge("zone_size", "Nodes of a zone."),
		health: gauge("zone_health", "How many of a hundred nodes of a zone are ready."),
		sick:   gauge("unhealthy_nodes_in_zone", "Nodes of a zone that are not ready."),
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "evictions_total", Help: "Nodes of a zone that were given up: what does not tolerate it has to go.",
		}, []string{"zone"}),
		update: prometheus.NewHistogram(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: "update_node_health_duration_seconds", Help: "How long it took to bring what is known of a node up to date.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}),
	}
	registerer.MustRegister(m.size, m.health, m.sick, m.evictions, m.update)
	return m
}

// forget drops the zones that a leadership has seen, but not what it counted.
func (m *Metrics) forget() {
	if m != nil {
		m.size.Reset()
		m.health.Reset()
		m.sick.Reset()
	}
}

// observed measures the zones as they are now. One that has no node any more is dropped; how many it gave up stays, for its last node may
// have gone with that.
func (m *Metrics) observed(counts map[string]count, gone []string) {
	if m == nil {
		return
	}
	for zone, c := range counts {
		sick := c.all - c.ready
		m.size.WithLabelValues(zone).Set(float64(c.all))
		m.health.WithLabelValues(zone).Set(100 * float64(c.ready) / float64(c.all))
		m.sick.WithLabelValues(zone).Set(float64(sick))
		m.evictions.WithLabelValues(zone) // 0 is told, too
	}
	for _, zone := range gone {
		m.size.DeleteLabelValues(zone)
		m.health.DeleteLabelValues(zone)
		m.sick.DeleteLabelValues(zone)
	}
}

// evicted counts a node that got a taint NoExecute.
func (m *Metrics) evicted(zone string) {
	if m != nil {
		m.evictions.WithLabelValues(zone).Inc()
	}
}

// updated measures a look at one node.
func (m *Metrics) updated(took time.Duration) {
	if m != nil {
		m.update.Observe(took.Seconds())
	}
}
