package device

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	registrations *prometheus.CounterVec
	allocations   *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		registrations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_device_plugin_registration_total", Help: "Registrations of device plugins, by resource.",
		}, []string{"resource_name"}),
		allocations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_device_plugin_alloc_duration_seconds", Help: "How long device plugins took to give devices to a container, by resource.",
			Buckets: prometheus.DefBuckets,
		}, []string{"resource_name"}),
	}
	registerer.MustRegister(m.registrations, m.allocations)
	return m
}

func (m *metrics) registered(resource string) { m.registrations.WithLabelValues(resource).Inc() }

func (m *metrics) allocated(resource string, took time.Duration) {
	m.allocations.WithLabelValues(resource).Observe(took.Seconds())
}
