package worker

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Metrics of the pods of a node, under the names that dashboards for
// Kubernetes look for.
type Metrics struct {
	clock clock.PassiveClock
	start prometheus.Histogram

	mu     sync.Mutex
	phases map[types.UID]corev1.PodPhase
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer, clk clock.PassiveClock) *Metrics {
	m := &Metrics{clock: clk, phases: map[types.UID]corev1.PodPhase{}}
	m.start = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "kubelet_pod_start_duration_seconds", Help: "Time from the node's first sight of a pod to its containers running.",
		Buckets: prometheus.ExponentialBuckets(0.05, 2, 14),
	})
	running := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kubelet_running_pods", Help: "Pods whose containers run.",
	}, m.running)
	if registerer != nil {
		registerer.MustRegister(m.start, running)
	}
	return m
}

func (m *Metrics) running() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	count := 0
	for _, phase := range m.phases {
		if phase == corev1.PodRunning {
			count++
		}
	}
	return float64(count)
}

// observe notes a pod's state.
func (m *Metrics) observe(p *corev1.Pod, s *corev1.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.phases[p.UID]
	m.phases[p.UID] = s.Phase
	if s.Phase == corev1.PodRunning && before == corev1.PodPending && s.StartTime != nil {
		m.start.Observe(m.clock.Since(s.StartTime.Time).Seconds())
	}
}

func (m *Metrics) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.phases, uid)
}
