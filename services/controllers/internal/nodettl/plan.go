// Package nodettl tells nodes, by an annotation, for how long they may use Secrets and ConfigMaps before they read them again: the more nodes, the longer.
package nodettl

import "math"

// step is a size of clusters and what holds for them. The sizes overlap, so that a cluster at a border does not have all its nodes written to
// whenever one comes or goes.
type step struct{ least, most, seconds int }

// steps are Kubernetes' own.
var steps = []step{
	{0, 100, 0},
	{90, 500, 15},
	{450, 1000, 30},
	{900, 2000, 60},
	{1800, math.MaxInt, 300},
}

// Next returns the step of a cluster that was at one, and has so many nodes now.
func Next(at, nodes int) int {
	for nodes > steps[at].most {
		at++
	}
	for nodes < steps[at].least {
		at--
	}
	return at
}
