package cpu

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/nodeagent/internal/topology"
)

type metrics struct {
	requests, errors prometheus.Counter
	shared, own      prometheus.Gauge
	perNode          *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounter(prometheus.CounterOpts{Name: "kubelet_cpu_manager_pinning_requests_total", Help: "Containers that were to have CPUs for themselves."}),
		errors:   prometheus.NewCounter(prometheus.CounterOpts{Name: "kubelet_cpu_manager_pinning_errors_total", Help: "Containers that could not have CPUs for themselves."}),
		shared:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubelet_cpu_manager_shared_pool_size_millicores", Help: "CPUs that containers share, in thousandths."}),
		own:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubelet_cpu_manager_exclusive_cpu_allocation_count", Help: "CPUs that containers have for themselves."}),
		perNode: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubelet_cpu_manager_allocation_per_numa", Help: "CPUs that containers have for themselves, by NUMA node.",
		}, []string{"numa_node"}),
	}
	registerer.MustRegister(m.requests, m.errors, m.shared, m.own, m.perNode)
	return m
}

// measure tells how the CPUs are shared out. The lock is held.
func (m *Manager) measure() {
	given := m.given()
	m.metrics.shared.Set(float64(m.shared().Size() * 1000))
	m.metrics.own.Set(float64(given.Size()))
	for _, node := range m.cfg.Machine.Nodes().Nodes() {
		m.metrics.perNode.WithLabelValues(strconv.Itoa(node)).Set(float64(given.Intersection(m.cfg.Machine.On(topology.Of(node))).Size()))
	}
}
