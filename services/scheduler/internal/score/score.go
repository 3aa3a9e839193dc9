// Package score rates the nodes that a pod may run on. Adding a score is
// adding a file with its Score and a row in the table of package plugin.
package score

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
)

// Max is the best rating after normalisation.
const Max = 100

// Score rates nodes for one pod.
type Score struct {
	// Name is Kubernetes' name of the plugin, as in "ImageLocality".
	Name string
	// Weight multiplies the normalised rating.
	Weight int64
	// Prepare returns the pod's rating of a node, or nil where all nodes are
	// alike to it.
	Prepare func(pod *corev1.Pod, snapshot cluster.Snapshot) func(n *cluster.Node) int64
	// Normalise maps the raw ratings of all feasible nodes to 0..Max; nil
	// where Prepare's already are.
	Normalise func(ratings []int64)
	// FollowsPods says that a rating changes with the pods on the node
	// itself, so that it must be taken anew after each placement there.
	FollowsPods bool
	// Share, in place of Prepare, returns the pod's rating of nodes by the pods of other nodes, too; nil where all nodes are alike to it.
	// feasible are the nodes among which it chooses.
	Share func(pod *corev1.Pod, snapshot cluster.Snapshot, feasible []*cluster.Node) Shared
}

// Of returns the normalised ratings of feasible nodes; zeros where all are alike to the pod.
func (s Score) Of(pod *corev1.Pod, snapshot cluster.Snapshot, feasible []*cluster.Node) []int64 {
	ratings := make([]int64, len(feasible))
	if s.Share != nil {
		if shared := s.Share(pod, snapshot, feasible); shared != nil {
			shared.Rate(ratings)
		}
		return ratings
	}
	rate := s.Prepare(pod, snapshot)
	if rate == nil {
		return ratings
	}
	for i, n := range feasible {
		ratings[i] = rate(n)
	}
	if s.Normalise != nil {
		s.Normalise(ratings)
	}
	return ratings
}

// Shared is a pod's rating of the nodes among which it chooses that depends on the pods of others.
type Shared interface {
	// Rate sets the ratings of the nodes, each 0 to Max.
	Rate(ratings []int64)
	// Place counts one more pod like the rated one on the i-th node.
	Place(i int)
	// Leave says that there is no choosing the i-th node any more.
	Leave(i int)
}

// highestIsBest scales ratings so that the highest becomes Max.
func highestIsBest(ratings []int64) {
	var highest int64
	for _, r := range ratings {
		highest = max(highest, r)
	}
	if highest == 0 {
		return
	}
	for i := range ratings {
		ratings[i] = ratings[i] * Max / highest
	}
}

// lowestIsBest scales ratings so that 0 becomes Max and the highest 0.
func lowestIsBest(ratings []int64) {
	highestIsBest(ratings)
	for i := range ratings {
		ratings[i] = Max - ratings[i]
	}
}
