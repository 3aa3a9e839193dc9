package endpointslice

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/services/controllers/internal/pack"
)

const subsystem = "endpoint_slice_controller"

// Metrics are Kubernetes' metrics of the slices of services. A nil one measures nothing.
type Metrics struct {
	slices   *pack.Metrics
	changed  *prometheus.HistogramVec
	syncs    *prometheus.CounterVec
	services *prometheus.GaugeVec

	mu           sync.Mutex
	distribution map[string]string // of services that have one, by key
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		slices: pack.NewMetrics(registerer, subsystem),
		changed: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: "endpointslices_changed_per_sync", Help: "Slices that were written in one reconcile.",
		}, []string{"topology", "traffic_distribution"}),
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "syncs", Help: "Reconciles of services: success, error, or stale where a cache was behind.",
		}, []string{"result"}),
		services: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Subsystem: subsystem, Name: "services_count_by_traffic_distribution", Help: "Services that ask for their traffic to stay near.",
		}, []string{"traffic_distribution"}),
		distribution: map[string]string{},
	}
	registerer.MustRegister(m.changed, m.syncs, m.services)
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
func (m *Metrics) began() {
	if m == nil {
		return
	}
	m.slices.Began()
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.distribution)
	m.services.Reset()
}

// behind counts a reconcile that waits for the cache.
func (m *Metrics) behind() {
	if m != nil {
		m.syncs.WithLabelValues("stale").Inc()
	}
}

// synced counts a reconcile.
func (m *Metrics) synced(err error) {
	if m == nil {
		return
	}
	result := "success"
	switch {
	case apierrors.IsConflict(err):
		result = "stale"
	case err != nil:
		result = "error"
	}
	m.syncs.WithLabelValues(result).Inc()
}

// planned measures a service as it is planned to be.
func (m *Metrics) planned(key string, s *corev1.Service, plan pack.Plan) {
	if m == nil {
		return
	}
	m.slices.Planned(key, plan.Tally)
	m.follow(key, distribution(s))
}

// applied measures what was written for a service.
func (m *Metrics) applied(s *corev1.Service, plan pack.Plan, err error) {
	if m == nil || err != nil {
		return
	}
	topology := "Disabled"
	if auto(s) {
		topology = "Auto"
	}
	m.changed.WithLabelValues(topology, distribution(s)).Observe(float64(len(plan.Create) + len(plan.Update) + len(plan.Delete)))
}

// forget drops a service that is gone, or has no slices of ours any more.
func (m *Metrics) forget(key string) {
	if m == nil {
		return
	}
	m.slices.Forget(key)
	m.follow(key, "")
}

// follow counts services by their distribution, "" is none.
func (m *Metrics) follow(key, now string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.distribution[key]
	if was == now {
		return
	}
	if was != "" {
		m.services.WithLabelValues(was).Dec()
		delete(m.distribution, key)
	}
	if now != "" {
		m.services.WithLabelValues(now).Inc()
		m.distribution[key] = now
	}
}

// distribution is that by which the hints of a service's endpoints are given, "" where they are not.
func distribution(s *corev1.Service) string {
	if s.Spec.TrafficDistribution == nil || auto(s) {
		return ""
	}
	return *s.Spec.TrafficDistribution
}
