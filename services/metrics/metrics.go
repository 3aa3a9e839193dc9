package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	scrapes *prometheus.CounterVec
	took    prometheus.Histogram
	points  *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		scrapes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "howdah_metrics_scrapes_total", Help: "How often nodes were asked what they use, by outcome: ok, failed, none (the node names no endpoint).",
		}, []string{"outcome"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "howdah_metrics_scrape_seconds", Help: "How long a node took to answer, or not to.", Buckets: prometheus.ExponentialBuckets(0.002, 2, 13),
		}),
		points: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "howdah_metrics_known", Help: "Of how many nodes and pods it is known what they use.",
		}, []string{"kind"}),
	}
	if registerer != nil {
		registerer.MustRegister(m.scrapes, m.took, m.points)
	}
	for _, outcome := range []string{"ok", "failed", "none"} {
		m.scrapes.WithLabelValues(outcome)
	}
	return m
}

func (m *metrics) scraped(outcome string, took time.Duration) {
	m.scrapes.WithLabelValues(outcome).Inc()
	if took > 0 {
		m.took.Observe(took.Seconds())
	}
}

func (m *metrics) known(nodes, pods int) {
	m.points.WithLabelValues("node").Set(float64(nodes))
	m.points.WithLabelValues("pod").Set(float64(pods))
}
