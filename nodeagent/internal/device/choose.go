package device

import (
	"slices"

	"howdah.dev/nodeagent/internal/topology"
)

// choice is what a container is to have of a resource, before anybody is asked which of the devices go well together.
type choice struct {
	// must are those that it has in any case: its pod's init containers have had them.
	must []string
	// near are those of the nodes that suit the pod, then come others and those of no node in particular; all are free.
	near, far, nowhere []string
	// want is how many it is to have.
	want int
}

// choose sorts the free devices by whether they are where the pod is to be; nodes is by device.
func choose(want int, must, free []string, nodes map[string][]int64, at topology.Mask) choice {
	c := choice{must: must[:min(want, len(must))], want: want}
	for _, id := range free {
		switch {
		case at == 0 || len(nodes[id]) == 0:
			c.nowhere = append(c.nowhere, id)
		case slices.ContainsFunc(nodes[id], func(n int64) bool { return at.Has(int(n)) }):
			c.near = append(c.near, id)
		default:
			c.far = append(c.far, id)
		}
	}
	return c
}

// question returns from which devices the plugin may say what it prefers, beside those that are given; asked again once those that are near are all given.
// It is not to be asked where nothing is left to choose.
func (c choice) question() (available, must []string, ask bool) {
	needed := c.want - len(c.must)
	if needed <= 0 {
		return nil, nil, false
	}
	if needed < len(c.near) {
		return sorted(c.near, c.must), c.must, true
	}
	given := sorted(c.must, c.near)
	return sorted(given, c.far, c.nowhere), given, needed > len(c.near)
}

// answer takes what the plugin prefers, as far as it may, and completes it.
func (c choice) answer(preferred []string) []string {
	out := slices.Clone(c.must)
	take := func(list []string, only []string) {
		for _, id := range list {
			if len(out) < c.want && !slices.Contains(out, id) && slices.Contains(only, id) {
				out = append(out, id)
			}
		}
	}
	if c.want-len(c.must) < len(c.near) {
		take(preferred, c.near)
		take(c.near, c.near)
	} else {
		take(c.near, c.near)
		take(preferred, slices.Concat(c.far, c.nowhere))
		take(c.far, c.far)
		take(c.nowhere, c.nowhere)
	}
	slices.Sort(out)
	return out
}

func sorted(lists ...[]string) []string {
	out := slices.Concat(lists...)
	slices.Sort(out)
	return out
}
