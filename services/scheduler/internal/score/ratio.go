package score

import (
	"math"

	"howdah.dev/services/scheduler/internal/cluster"
)

// Point is a point of a shape: what a node is rated with, 0 to Max, whose resource is used to so many percent.
type Point struct{ Utilization, Score int64 }

// RequestedToCapacityRatio rates nodes by a shape, which has a point at least and whose points go up by their utilization. Between
// two points the rating goes straight from one to the other. Resources that are rated with 0 do not count, as in Kubernetes.
func RequestedToCapacityRatio(resources []Resource, shape []Point) Score {
	return fit(resources, func(meters []meter) func(*cluster.Node) int64 {
		return func(n *cluster.Node) int64 {
			var sum, weights int64
			for i := range meters {
				m := &meters[i]
				there := m.of(&n.Allocatable)
				if there <= 0 {
					continue
				}
				if r := rated(shape, taken(m.of(&n.Scored)+m.wanted, there)); r > 0 {
					sum += m.weight * r
					weights += m.weight
				}
			}
			if weights == 0 {
				return 0
			}
			return int64(math.Round(float64(sum) / float64(weights)))
		}
	})
}

// rated is what a shape says of a utilization in percent.
func rated(shape []Point, utilization int64) int64 {
	last := shape[0]
	for _, p := range shape {
		if utilization <= p.Utilization {
			if p == last { // the first one
				return p.Score
			}
			return last.Score + (p.Score-last.Score)*(utilization-last.Utilization)/(p.Utilization-last.Utilization)
		}
		last = p
	}
	return last.Score
}
