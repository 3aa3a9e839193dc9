// Package topology says which of a machine's NUMA nodes a container should have its CPUs, memory and devices from. Who hands those out tells where it
// could (Hints), and a policy makes one answer of what all of them tell (Merge). Both are pure.
package topology

import (
	"cmp"
	"iter"
	"math/bits"
)

// MaxNodes is the most NUMA nodes that are told apart.
const MaxNodes = 64

// Mask is a set of NUMA nodes.
type Mask uint64

// Of is the set of the nodes.
func Of(nodes ...int) Mask {
	var m Mask
	for _, n := range nodes {
		if n >= 0 && n < MaxNodes {
			m |= 1 << n
		}
	}
	return m
}

// Count is how many nodes there are in the set.
func (m Mask) Count() int { return bits.OnesCount64(uint64(m)) }

// Has reports whether a node is in the set.
func (m Mask) Has(node int) bool { return m&Of(node) != 0 }

// Holds reports whether all of the others are in the set.
func (m Mask) Holds(others Mask) bool { return others&^m == 0 }

// Nodes are those in the set, in order.
func (m Mask) Nodes() []int {
	var out []int
	for n := range MaxNodes {
		if m.Has(n) {
			out = append(out, n)
		}
	}
	return out
}

// Subsets are all sets of the nodes that are not empty.
func (m Mask) Subsets() iter.Seq[Mask] {
	return func(yield func(Mask) bool) {
		for sub := m; sub != 0; sub = (sub - 1) & m {
			if !yield(sub) {
				return
			}
		}
	}
}

// narrower orders sets: those of fewer nodes first, of two alike the one of lower nodes.
func narrower(a, b Mask) int {
	return cmp.Or(cmp.Compare(a.Count(), b.Count()), cmp.Compare(a, b))
}

// Hint is one way to give a container what it asks for of a resource: from these nodes, or from any where Nodes is empty.
type Hint struct {
	Nodes Mask
	// Preferred says that it takes no more nodes than it has to.
	Preferred bool
}

// Hints are the ways to give a container each of some resources. One of which there is no way at all has an empty list; one that comes from nowhere in
// particular is missing.
type Hints map[string][]Hint

// Hinter makes the hints for amounts of something that is spread over nodes. It asks for every set of nodes whether all that they have would do, and
// whether what is left of them does; the sets for which it does are the hints, and of those the smallest that all that they have would do are preferred.
func Hinter(nodes Mask, whole, left func(Mask) bool) []Hint {
	smallest := nodes.Count() + 1
	out := []Hint{}
	for set := range nodes.Subsets() {
		if !whole(set) {
			continue
		}
		smallest = min(smallest, set.Count())
		if left(set) {
			out = append(out, Hint{Nodes: set})
		}
	}
	for i := range out {
		out[i].Preferred = out[i].Nodes.Count() == smallest
	}
	return out
}
