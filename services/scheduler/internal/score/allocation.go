package score

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
)

// LeastAllocated prefers nodes with the most CPU and memory left.
var LeastAllocated = Score{
	Name: "NodeResourcesFit", Weight: 1, FollowsPods: true,
	Prepare: func(pod *corev1.Pod, _ cluster.Snapshot) func(*cluster.Node) int64 {
		wanted := cluster.ScoredRequests(pod)
		return func(n *cluster.Node) int64 {
			return (left(n.Allocatable.MilliCPU, n.Scored.MilliCPU+wanted.MilliCPU) +
				left(n.Allocatable.Memory, n.Scored.Memory+wanted.Memory)) / 2
		}
	},
}

// left returns the share that is left, 0 to Max.
func left(there, taken int64) int64 {
	if there <= 0 || taken > there {
		return 0
	}
	return (there - taken) * Max / there
}

// BalancedAllocation prefers nodes whose CPU and memory would be used to
// about the same share.
var BalancedAllocation = Score{
	Name: "NodeResourcesBalancedAllocation", Weight: 1, FollowsPods: true,
	Prepare: func(pod *corev1.Pod, _ cluster.Snapshot) func(*cluster.Node) int64 {
		wanted := cluster.Requests(pod)
		if wanted.MilliCPU == 0 && wanted.Memory == 0 {
			return nil // a pod that asks for nothing unbalances nothing
		}
		return func(n *cluster.Node) int64 {
			cpu := share(n.Requested.MilliCPU+wanted.MilliCPU, n.Allocatable.MilliCPU)
			memory := share(n.Requested.Memory+wanted.Memory, n.Allocatable.Memory)
			// The standard deviation of two values is half their distance.
			return int64((1 - math.Abs(cpu-memory)/2) * Max)
		}
	},
}

func share(taken, there int64) float64 {
	if there <= 0 {
		return 1
	}
	return min(float64(taken)/float64(there), 1)
}
