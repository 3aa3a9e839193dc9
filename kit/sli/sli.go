// Package sli counts the outcomes of health checks, for /metrics/slis: Kubernetes' "Component SLI metrics".
package sli

import "github.com/prometheus/client_golang/prometheus"

// Checks are the outcomes of a component's checks. It is a collector, safe for concurrent use.
type Checks struct {
	now   *prometheus.GaugeVec
	total *prometheus.CounterVec
}

// New returns Checks of which none has run.
func New() *Checks {
	return &Checks{
		now: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubernetes_healthcheck", Help: "[STABLE] This metric records the result of a single healthcheck.",
		}, []string{"name", "type"}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubernetes_healthchecks_total", Help: "[STABLE] This metric records the results of all healthcheck.",
		}, []string{"name", "status", "type"}),
	}
}

// Observe counts the outcome of a check of a probe: healthz, livez or readyz.
func (c *Checks) Observe(probe, name string, err error) {
	value, status := 1.0, "success"
	if err != nil {
		value, status = 0, "error"
	}
	c.now.WithLabelValues(name, probe).Set(value)
	c.total.WithLabelValues(name, status, probe).Inc()
}

// Reset forgets all outcomes.
func (c *Checks) Reset() {
	c.now.Reset()
	c.total.Reset()
}

// Describe implements prometheus.Collector.
func (c *Checks) Describe(to chan<- *prometheus.Desc) {
	c.now.Describe(to)
	c.total.Describe(to)
}

// Collect implements prometheus.Collector.
func (c *Checks) Collect(to chan<- prometheus.Metric) {
	c.now.Collect(to)
	c.total.Collect(to)
}
