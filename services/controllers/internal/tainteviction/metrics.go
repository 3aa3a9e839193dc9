package tainteviction

import (
	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/services/controllers/internal/pod"
)

// NewMetrics registers Kubernetes' metrics of evictions for the sake of nodes.
func NewMetrics(registerer prometheus.Registerer) *pod.Evictions {
	return pod.NewEvictions(registerer, "taint_eviction_controller", "their nodes")
}
