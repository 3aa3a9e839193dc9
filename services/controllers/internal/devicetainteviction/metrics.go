package devicetainteviction

import (
	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/services/controllers/internal/pod"
)

// NewMetrics registers Kubernetes' metrics of evictions for the sake of devices.
func NewMetrics(registerer prometheus.Registerer) *pod.Evictions {
	return pod.NewEvictions(registerer, "device_taint_eviction_controller", "their devices")
}
