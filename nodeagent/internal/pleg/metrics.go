package pleg

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of the lists, under a kubelet's names. What a list finds changed is never thrown away, so nothing counts that.
type metrics struct {
	seconds, interval prometheus.Histogram
	last              prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_pleg_relist_duration_seconds", Help: "How long it took to list what the runtime has.", Buckets: prometheus.DefBuckets,
		}),
		interval: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_pleg_relist_interval_seconds", Help: "Time from the last list that the runtime answered to the next one.", Buckets: prometheus.DefBuckets,
		}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_pleg_last_seen_seconds", Help: "When the last list began that the runtime answered, in seconds since 1970.",
		}),
	}
	if registerer != nil {
		registerer.MustRegister(m.seconds, m.interval, m.last)
	}
	return m
}

// observe tells of a list, and of the one before, whose time is zero where there is none.
func (m *metrics) observe(before, began, ended time.Time) {
	if !before.IsZero() {
		m.interval.Observe(began.Sub(before).Seconds())
	}
	m.seconds.Observe(ended.Sub(began).Seconds())
}

// seen tells when a list began that the runtime has answered.
func (m *metrics) seen(began time.Time) { m.last.Set(float64(began.Unix())) }
