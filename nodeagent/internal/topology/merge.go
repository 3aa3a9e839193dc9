package topology

import (
	"fmt"
	"maps"
	"slices"
)

// Policy is what becomes of a pod whose resources cannot all be had from the same nodes.
type Policy string

// None asks for no hints; BestEffort takes the pod in any case; Restricted refuses it unless every resource is preferred there; SingleNode, unless all
// of them are from a single node.
const (
	None       Policy = "none"
	BestEffort Policy = "best-effort"
	Restricted Policy = "restricted"
	SingleNode Policy = "single-numa-node"
)

// Scope is what the resources are for that shall be had from the same nodes: each container, or the pod.
type Scope string

// ScopeContainer is the default.
const (
	ScopeContainer Scope = "container"
	ScopePod       Scope = "pod"
)

// Options are those of a policy.
type Options struct {
	// PreferClosest chooses, of sets of as many nodes, the one whose nodes are closest to each other.
	PreferClosest bool
	// MaxNodes is the most NUMA nodes of a machine on which there is a policy; 0 is 8.
	MaxNodes int
}

// ParseOptions reads what is set as name=value.
func ParseOptions(set map[string]string) (Options, error) {
	o := Options{MaxNodes: 8}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		var err error
		switch value := set[name]; name {
		case "prefer-closest-numa-nodes":
			_, err = fmt.Sscanf(value, "%t", &o.PreferClosest)
		case "max-allowable-numa-nodes":
			if _, err = fmt.Sscanf(value, "%d", &o.MaxNodes); err == nil && (o.MaxNodes < 8 || o.MaxNodes > MaxNodes) {
				err = fmt.Errorf("it is from 8 to %d", MaxNodes)
			}
		default:
			err = fmt.Errorf("there is no such option")
		}
		if err != nil {
			return o, fmt.Errorf("option %s=%s of the topology manager's policy: %w", name, set[name], err)
		}
	}
	return o, nil
}

// Merger makes one answer of hints.
type Merger struct {
	Policy Policy
	// Nodes are the machine's.
	Nodes Mask
	// Apart, where sets of nodes are chosen by it, is how far the nodes of a set are from each other on average.
	Apart func(Mask) float64
}

// way is what is worth knowing of hints of which one is for each resource.
type way struct {
	nodes     Mask // that all of them have
	same      Mask // that each of those that name some names; 0 where none does
	preferred bool
}

// Merge returns from which nodes all resources should come, and whether the policy takes the pod then. Each of hints is what one tells who hands resources out.
func (m Merger) Merge(hints []Hints) (Hint, bool) {
	if m.Policy == None {
		return Hint{Preferred: true}, true
	}
	ways := map[way]bool{{nodes: m.Nodes, preferred: true}: true}
	enough := 0 // how many nodes the resource needs at least that needs most
	for _, list := range m.lists(hints) {
		fewest := 0
		for _, h := range list {
			if n := h.Nodes.Count(); n > 0 && (fewest == 0 || n < fewest) {
				fewest = n
			}
		}
		enough = max(enough, fewest)
		ways = combine(ways, list)
	}
	best := Hint{Nodes: m.Nodes}
	found := false
	for _, w := range slices.SortedFunc(maps.Keys(ways), func(a, b way) int { return narrower(a.nodes, b.nodes) }) {
		if w.nodes == 0 {
			continue
		}
		candidate := Hint{Nodes: w.nodes, Preferred: w.preferred}
		if !found || m.better(candidate, best, enough) {
			best, found = candidate, true
		}
	}
	if best.Nodes == m.Nodes && m.Policy == SingleNode {
		best.Nodes = 0
	}
	return best, m.Policy == BestEffort || best.Preferred
}

// lists are the hints of each resource, those that the policy can do something with. A resource that cannot be had at all may come from anywhere, but not as preferred.
func (m Merger) lists(all []Hints) [][]Hint {
	var out [][]Hint
	for _, hints := range all {
		for _, resource := range slices.Sorted(maps.Keys(hints)) {
			list := hints[resource]
			if len(list) == 0 {
				list = []Hint{{}}
			}
			if m.Policy == SingleNode {
				list = slices.DeleteFunc(slices.Clone(list), func(h Hint) bool { return !h.Preferred || h.Nodes.Count() > 1 })
			}
			out = append(out, list)
		}
	}
	return out
}

// combine adds one hint of a list to each way. Ways are told apart by no more than what the outcome depends on, so there are few of them, however many lists.
func combine(ways map[way]bool, list []Hint) map[way]bool {
	out := map[way]bool{}
	for w := range ways {
		for _, h := range list {
			next := way{nodes: w.nodes, same: w.same, preferred: w.preferred && h.Preferred}
			if h.Nodes != 0 {
				next.nodes &= h.Nodes
				if w.same != 0 && w.same != h.Nodes { // they are no longer from the same nodes
					next.preferred = false
				}
				next.same = h.Nodes
			}
			if !next.preferred {
				next.same = 0 // nothing makes it preferred again
			}
			out[next] = true
		}
	}
	return out
}

// better reports whether a candidate is to be chosen instead. Where nothing is preferred, as many nodes are best as the resource needs at least that needs
// most: with fewer it would be had from elsewhere.
func (m Merger) better(candidate, best Hint, enough int) bool {
	if candidate.Preferred != best.Preferred {
		return candidate.Preferred
	}
	c, b := candidate.Nodes.Count(), best.Nodes.Count()
	if !candidate.Preferred {
		switch {
		case b > enough:
		case b == enough && c != enough, b < enough && c > enough:
			return false
		case b < enough && c != b:
			return c > b
		}
	}
	if m.Apart != nil && c == b {
		if x, y := m.Apart(candidate.Nodes), m.Apart(best.Nodes); x != y {
			return x < y
		}
	}
	return narrower(candidate.Nodes, best.Nodes) < 0
}
