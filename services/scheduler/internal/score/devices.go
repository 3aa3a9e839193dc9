package score

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/device"
)

// DynamicResources prefers nodes whose devices the pod's claims name before their alternatives. The search on a node takes no longer than patience; 0 is no bound.
func DynamicResources(patience time.Duration) Score {
	return Score{
		Name: "DynamicResources", Weight: 2, Normalise: highestIsBest,
		Prepare: func(pod *corev1.Pod, snapshot cluster.Snapshot) func(*cluster.Node) int64 {
			if !device.UsesClaims(pod) || snapshot.Devices.Refusal(pod) != "" {
				return nil
			}
			wants := device.WantsOf(pod, snapshot.Devices, patience)
			if !wants.Alternatives() {
				return nil
			}
			return func(n *cluster.Node) int64 { return wants.Preference(n.Object) }
		},
	}
}
