package pack

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are what Kubernetes' controllers of slices have in common. A nil one measures nothing.
type Metrics struct {
	added, removed            prometheus.Histogram
	endpoints, slices, wanted prometheus.Gauge
	changes                   *prometheus.CounterVec

	mu    sync.Mutex
	known map[string]Tally // of owners, by key
	total Tally
}

// NewMetrics registers the metrics of a controller.
func NewMetrics(registerer prometheus.Registerer, subsystem string) *Metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Subsystem: subsystem, Name: name, Help: help})
	}
	m := &Metrics{
		added:     NewPerSync(subsystem, "endpoints_added_per_sync", "Endpoints that came in one reconcile."),
		removed:   NewPerSync(subsystem, "endpoints_removed_per_sync", "Endpoints that went in one reconcile."),
		endpoints: gauge("endpoints_desired", "Endpoints that there should be."),
		slices:    gauge("num_endpoint_slices", "Slices that there are."),
		wanted:    gauge("desired_endpoint_slices", "Slices that there would be if all but the last of each group were full."),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "changes", Help: "Slices that were written: create, update or delete.",
		}, []string{"operation"}),
		known: map[string]Tally{},
	}
	registerer.MustRegister(m.added, m.removed, m.endpoints, m.slices, m.wanted, m.changes)
	return m
}

// NewPerSync returns a histogram of what is counted in each reconcile.
func NewPerSync(subsystem, name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(2, 2, 15)})
}

// Began forgets the leadership before.
func (m *Metrics) Began() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.known)
	m.total = Tally{}
	m.tell()
}

// Planned measures the plan for an owner.
func (m *Metrics) Planned(owner string, t Tally) {
	if m == nil {
		return
	}
	m.added.Observe(float64(t.Added))
	m.removed.Observe(float64(t.Removed))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replace(m.known[owner], t)
	m.known[owner] = t
}

// Forget drops an owner that has no slices any more.
func (m *Metrics) Forget(owner string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replace(m.known[owner], Tally{})
	delete(m.known, owner)
}

// replace counts an owner's state instead of the one before. m.mu is held.
func (m *Metrics) replace(was, is Tally) {
	m.total.Endpoints += is.Endpoints - was.Endpoints
	m.total.Slices += is.Slices - was.Slices
	m.total.Wanted += is.Wanted - was.Wanted
	m.tell()
}

// tell sets the gauges. m.mu is held.
func (m *Metrics) tell() {
	m.endpoints.Set(float64(m.total.Endpoints))
	m.slices.Set(float64(m.total.Slices))
	m.wanted.Set(float64(m.total.Wanted))
}

func (m *Metrics) wrote(operation string) {
	if m != nil {
		m.changes.WithLabelValues(operation).Inc()
	}
}
