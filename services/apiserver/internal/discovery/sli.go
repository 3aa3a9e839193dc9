package discovery

import "github.com/prometheus/client_golang/prometheus"

// sli counts the outcomes of health checks, for /metrics/slis.
type sli struct {
	registry *prometheus.Registry
	now      *prometheus.GaugeVec
	total    *prometheus.CounterVec
}

func newSLI() *sli {
	s := &sli{
		registry: prometheus.NewRegistry(),
		now: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubernetes_healthcheck", Help: "[STABLE] This metric records the result of a single healthcheck.",
		}, []string{"name", "type"}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubernetes_healthchecks_total", Help: "[STABLE] This metric records the results of all healthcheck.",
		}, []string{"name", "status", "type"}),
	}
	s.registry.MustRegister(s.now, s.total)
	return s
}

// observe counts the outcome of a check of a probe.
func (s *sli) observe(probe, name string, err error) {
	value, status := 1.0, "success"
	if err != nil {
		value, status = 0, "error"
	}
	s.now.WithLabelValues(name, probe).Set(value)
	s.total.WithLabelValues(name, status, probe).Inc()
}
