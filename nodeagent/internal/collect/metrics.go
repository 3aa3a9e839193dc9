package collect

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	lines  *prometheus.CounterVec
	bytes  prometheus.Counter
	lost   prometheus.Counter
	pushes *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer, backlog func() float64) *metrics {
	m := &metrics{
		lines: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "howdah_nodeagent_log_lines_total", Help: "Lines of containers, by outcome: sent, dropped (the container writes too much), refused (by the service).",
		}, []string{"outcome"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "howdah_nodeagent_log_bytes_total", Help: "Bytes of the texts of lines that were sent.",
		}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "howdah_nodeagent_log_lost_bytes_total", Help: "Bytes of log files that were removed, or had to be given up, before they were sent.",
		}),
		pushes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "howdah_nodeagent_log_pushes_total", Help: "Calls of the service of the logs, by outcome.",
		}, []string{"outcome"}),
	}
	for _, outcome := range []string{"sent", "dropped", "refused"} {
		m.lines.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"ok", "failed"} {
		m.pushes.WithLabelValues(outcome)
	}
	if registerer != nil {
		registerer.MustRegister(m.lines, m.bytes, m.lost, m.pushes, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "howdah_nodeagent_log_backlog_bytes", Help: "Bytes of log files that are to be sent.",
		}, backlog))
	}
	return m
}
