package logs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/services/logs/internal/store"
)

type metrics struct {
	lines    *prometheus.CounterVec
	bytes    prometheus.Counter
	pushes   *prometheus.CounterVec
	lag      prometheus.Histogram
	searches *prometheus.CounterVec
	scanned  prometheus.Histogram
	stored   prometheus.Gauge
	dropped  prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		lines: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "howdah_logs_lines_total", Help: "Lines that nodes have sent, by outcome: stored, repeated (stored before), expired (older than what is kept), refused.",
		}, []string{"outcome"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "howdah_logs_bytes_total", Help: "Bytes of the texts of lines that were stored.",
		}),
		pushes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "howdah_logs_pushes_total", Help: "Calls of nodes, by outcome: ok, slowed, failed.",
		}, []string{"outcome"}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "howdah_logs_lag_seconds", Help: "Age of each push's newest line when it was stored.", Buckets: prometheus.ExponentialBuckets(0.125, 2, 16),
		}),
		searches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "howdah_logs_searches_total", Help: "Searches, by outcome: ok, failed.",
		}, []string{"outcome"}),
		scanned: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "howdah_logs_search_scanned_lines", Help: "Lines that a search has looked at.", Buckets: prometheus.ExponentialBuckets(10, 10, 6),
		}),
		stored: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "howdah_logs_stored_bytes", Help: "Room that the stored lines take, with their indexes.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "howdah_logs_dropped_hours_total", Help: "Hours of lines that were dropped, being too old or too much.",
		}),
	}
	if registerer != nil {
		registerer.MustRegister(m.lines, m.bytes, m.pushes, m.lag, m.searches, m.scanned, m.stored, m.dropped)
	}
	for _, outcome := range []string{"stored", "repeated", "expired", "refused"} {
		m.lines.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"ok", "slowed", "failed"} {
		m.pushes.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"ok", "failed"} {
		m.searches.WithLabelValues(outcome)
	}
	return m
}

func (m *metrics) kept(bytes int64, dropped int) {
	m.stored.Set(float64(bytes))
	m.dropped.Add(float64(dropped))
}

func (m *metrics) pushed(o store.Outcome, refused int, newest, now time.Time) {
	m.pushes.WithLabelValues("ok").Inc()
	m.lines.WithLabelValues("stored").Add(float64(o.Lines))
	m.lines.WithLabelValues("repeated").Add(float64(o.Repeated))
	m.lines.WithLabelValues("expired").Add(float64(o.Expired))
	m.lines.WithLabelValues("refused").Add(float64(refused))
	m.bytes.Add(float64(o.Bytes))
	if o.Lines > 0 {
		m.lag.Observe(max(now.Sub(newest).Seconds(), 0))
	}
}
