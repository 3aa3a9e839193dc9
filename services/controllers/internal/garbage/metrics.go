package garbage

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are Kubernetes' metrics of the garbage collector. A nil one measures nothing.
type Metrics struct{ errors prometheus.Counter }

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{errors: prometheus.NewCounter(prometheus.CounterOpts{
		Subsystem: "garbagecollector_controller", Name: "resources_sync_error_total", Help: "Looks for the kinds that there are which did not find all of them.",
	})}
	registerer.MustRegister(m.errors)
	return m
}

// missed counts a look for kinds that has failed, but not one that was broken off.
func (m *Metrics) missed(ctx context.Context) {
	if m != nil && ctx.Err() == nil {
		m.errors.Inc()
	}
}
