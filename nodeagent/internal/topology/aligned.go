package topology

import "github.com/prometheus/client_golang/prometheus"

// Boundary is within what a container has its own, by a kubelet's names.
type Boundary string

// The boundaries.
const (
	PhysicalCPU Boundary = "physical_cpu"
	NUMANode    Boundary = "numa_node"
)

// Aligned counts containers and pods whose own CPUs, memory and devices lie within a boundary because they have to, and those for which there was no such
// place. Nil counts nothing.
type Aligned struct{ done, failed *prometheus.CounterVec }

// NewAligned registers the metrics.
func NewAligned(registerer prometheus.Registerer) *Aligned {
	a := &Aligned{
		done: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_container_aligned_compute_resources_count", Help: "Containers, or pods, that were given their own within a boundary because they have to.",
		}, []string{"scope", "boundary"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_container_aligned_compute_resources_failure_count", Help: "Containers, or pods, that could not be given their own within the boundary in which they have to have it.",
		}, []string{"scope", "boundary"}),
	}
	registerer.MustRegister(a.done, a.failed)
	return a
}

// Count counts one, by whether it was to be for a container or a pod.
func (a *Aligned) Count(scope Scope, boundary Boundary, ok bool) {
	switch {
	case a == nil:
	case ok:
		a.done.WithLabelValues(string(scope), string(boundary)).Inc()
	default:
		a.failed.WithLabelValues(string(scope), string(boundary)).Inc()
	}
}
