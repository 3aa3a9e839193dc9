package endpointslicemirroring

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/services/controllers/internal/pack"
)

// Metrics are Kubernetes' metrics of slices that mirror Endpoints. A nil one measures nothing.
type Metrics struct {
	slices                    *pack.Metrics
	updated, skipped, seconds prometheus.Histogram
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	const subsystem = "endpoint_slice_mirroring_controller"
	m := &Metrics{
		slices:  pack.NewMetrics(registerer, subsystem),
		updated: pack.NewPerSync(subsystem, "endpoints_updated_per_sync", "Endpoints that changed in one reconcile."),
		skipped: pack.NewPerSync(subsystem, "addresses_skipped_per_sync", "Addresses that are not mirrored, since they are none, or too many."),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: "endpoints_sync_duration", Help: "Seconds that one reconcile took.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}),
	}
	registerer.MustRegister(m.updated, m.skipped, m.seconds)
	return m
}

// common is what other controllers of slices measure, too.
func (m *Metrics) common() *pack.Metrics {
	if m == nil {
		return nil
	}
	return m.slices
}

// began forgets the leadership before.
func (m *Metrics) began() { m.common().Began() }

// forget drops Endpoints that are not mirrored any more.
func (m *Metrics) forget(key string) { m.common().Forget(key) }

// planned measures the plan for some Endpoints.
func (m *Metrics) planned(key string, plan pack.Plan, skipped Skipped) {
	if m == nil {
		return
	}
	m.slices.Planned(key, plan.Tally)
	m.updated.Observe(float64(plan.Tally.Updated))
	m.skipped.Observe(float64(skipped.All))
}

// synced measures a reconcile.
func (m *Metrics) synced(took time.Duration) {
	if m != nil {
		m.seconds.Observe(took.Seconds())
	}
}
