package score

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
)

// Resource is one that counts, and how much beside the others.
type Resource struct {
	Name   corev1.ResourceName
	Weight int64
}

// CPUAndMemory are the resources that count where nothing else is said.
func CPUAndMemory() []Resource {
	return []Resource{{corev1.ResourceCPU, 1}, {corev1.ResourceMemory, 1}}
}

// LeastAllocated prefers nodes with the most left of the resources.
func LeastAllocated(resources []Resource) Score {
	return fit(resources, func(meters []meter) func(*cluster.Node) int64 {
		all := weighed(meters, left)
		if !areCPUAndMemory(meters) || meters[0].weight != meters[1].weight {
			return all
		}
		cpu, memory := meters[0].wanted, meters[1].wanted // the default, and the hot path
		return func(n *cluster.Node) int64 {
			there, used := &n.Allocatable, &n.Scored
			if there.MilliCPU <= 0 || there.Memory <= 0 {
				return all(n)
			}
			return (left(used.MilliCPU+cpu, there.MilliCPU) + left(used.Memory+memory, there.Memory)) / 2
		}
	})
}

// MostAllocated prefers nodes of whose resources the most is taken, so that others stay empty.
func MostAllocated(resources []Resource) Score {
	return fit(resources, func(meters []meter) func(*cluster.Node) int64 { return weighed(meters, taken) })
}

// weighed rates a node by the mean of what each of the resources, by its weight, is rated with.
func weighed(meters []meter, rate func(used, there int64) int64) func(*cluster.Node) int64 {
	return func(n *cluster.Node) int64 {
		var sum, weights int64
		for i := range meters {
			m := &meters[i]
			if there := m.of(&n.Allocatable); there > 0 {
				sum += m.weight * rate(m.of(&n.Scored)+m.wanted, there)
				weights += m.weight
			}
		}
		if weights == 0 {
			return 0
		}
		return sum / weights
	}
}

// fit is NodeResourcesFit's score. What containers do not request counts with the defaults for scores; what a pod requests as a whole does not, before
// it is on a node.
func fit(resources []Resource, by func(meters []meter) func(*cluster.Node) int64) Score {
	return Score{
		Name: "NodeResourcesFit", Weight: 1, FollowsPods: true,
		Prepare: func(pod *corev1.Pod, _ cluster.Snapshot) func(*cluster.Node) int64 {
			return by(metersOf(resources, cluster.RatedRequests(pod)))
		},
	}
}

// left returns the share that is left, 0 to Max.
func left(used, there int64) int64 {
	if used > there {
		return 0
	}
	return (there - used) * Max / there
}

// taken returns the share that is taken, 0 to Max.
func taken(used, there int64) int64 { return min(used, there) * Max / there }

// BalancedAllocation prefers nodes whose resources the pod would bring closer to being used to the same share. Since Kubernetes 1.36 it is the change
// that counts: three quarters of Max where there is none, Max for all and half of it for nothing of the balance of two resources.
func BalancedAllocation(resources []Resource) Score {
	return Score{
		Name: "NodeResourcesBalancedAllocation", Weight: 1, FollowsPods: true,
		Prepare: func(pod *corev1.Pod, _ cluster.Snapshot) func(*cluster.Node) int64 {
			meters := metersOf(resources, cluster.Requests(pod))
			if !wantsAny(meters) {
				return nil // a pod that asks for nothing unbalances nothing
			}
			if !areCPUAndMemory(meters) {
				return func(n *cluster.Node) int64 {
					return balanced(deviation(meters, n, (*meter).shareBefore), deviation(meters, n, (*meter).share))
				}
			}
			cpu, memory := meters[0].wanted, meters[1].wanted // the default, and the hot path
			return func(n *cluster.Node) int64 {
				there, used := &n.Allocatable, &n.Requested
				if there.MilliCPU <= 0 || there.Memory <= 0 {
					return balanced(0, 0)
				}
				before := share(used.MilliCPU, there.MilliCPU) - share(used.Memory, there.Memory)
				after := share(used.MilliCPU+cpu, there.MilliCPU) - share(used.Memory+memory, there.Memory)
				return balanced(math.Abs(before)/2, math.Abs(after)/2) // the standard deviation of two values is half their distance
			}
		},
	}
}

// balanced rates a change of the deviation of shares, which is 0.5 at most. Both balances are whole numbers before they are compared: fractions
// decide between nodes no more than in Kubernetes.
func balanced(before, after float64) int64 { return Max/2 + (Max/2+balance(after)-balance(before))/2 }

// balance is Max where all shares are the same, and half of it where two differ the most.
func balance(deviation float64) int64 { return int64((1 - deviation) * Max) }

// share is to what part, at most 1, something is used.
func share(used, there int64) float64 { return min(float64(used)/float64(there), 1) }

func wantsAny(meters []meter) bool {
	for _, m := range meters {
		if m.wanted > 0 {
			return true
		}
	}
	return false
}

// deviation is the standard deviation of the shares to which the resources that a node has are used.
func deviation(meters []meter, n *cluster.Node, shareOf func(*meter, *cluster.Node) float64) float64 {
	var sum, count float64
	for i := range meters {
		if share := shareOf(&meters[i], n); share >= 0 {
			sum, count = sum+share, count+1
		}
	}
	if count < 2 {
		return 0
	}
	mean, squares := sum/count, 0.0
	for i := range meters {
		if share := shareOf(&meters[i], n); share >= 0 {
			squares += (share - mean) * (share - mean)
		}
	}
	return math.Sqrt(squares / count)
}
