package aggregate

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics have the names of Kubernetes' aggregator.
type metrics struct {
	unavailable      *prometheus.GaugeVec
	unavailableCount *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		unavailable: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "aggregator_unavailable_apiservice", Help: "1 for an APIService that is not available, 0 otherwise.",
		}, []string{"name"}),
		unavailableCount: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aggregator_unavailable_apiservice_total", Help: "Checks that found an APIService unavailable, by name and reason.",
		}, []string{"name", "reason"}),
	}
	if registerer != nil {
		registerer.MustRegister(m.unavailable, m.unavailableCount)
	}
	return m
}

func (m *metrics) checked(name string, available bool, reason string) {
	if available {
		m.unavailable.WithLabelValues(name).Set(0)
		return
	}
	m.unavailable.WithLabelValues(name).Set(1)
	m.unavailableCount.WithLabelValues(name, reason).Inc()
}

func (m *metrics) forget(name string) {
	m.unavailable.DeleteLabelValues(name)
	m.unavailableCount.DeletePartialMatch(prometheus.Labels{"name": name})
}
