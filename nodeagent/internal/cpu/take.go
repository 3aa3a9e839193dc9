package cpu

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/cpuset"

	"howdah.dev/nodeagent/internal/topology"
)

// take chooses so many of the free CPUs, as close together as there are: whole sockets, then whole NUMA nodes, whole cores, and what is missing
// from cores that are in use already. What is broken into is the one with the least left, so that others stay whole.
func take(m topology.Machine, free cpuset.CPUSet, n int) (cpuset.CPUSet, error) {
	if free.Size() < n {
		return cpuset.CPUSet{}, fmt.Errorf("not enough cpus available to satisfy request: requested=%d, available=%d", n, free.Size())
	}
	t := &taker{m: m, free: map[int]bool{}, left: n}
	for _, id := range free.UnsortedList() {
		t.free[id] = true
	}
	for _, of := range []func(topology.CPU) int{socket, node, core} {
		t.whole(of)
	}
	t.rest()
	return cpuset.New(t.got...), nil
}

// Reserve chooses so many CPUs for the system, close together.
func Reserve(m topology.Machine, n int) (cpuset.CPUSet, error) { return take(m, m.All(), n) }

func socket(c topology.CPU) int { return c.Socket }
func node(c topology.CPU) int   { return c.Node }
func core(c topology.CPU) int   { return c.Core }

type taker struct {
	m    topology.Machine
	free map[int]bool
	got  []int
	left int
}

func (t *taker) take(cpus ...topology.CPU) {
	for _, c := range cpus {
		delete(t.free, c.ID)
		t.got = append(t.got, c.ID)
		t.left--
	}
}

// count returns how many CPUs of which something is true there are, by what they have in common.
func (t *taker) count(of func(topology.CPU) int, is func(topology.CPU) bool) map[int]int {
	out := map[int]int{}
	for _, c := range t.m.CPUs {
		if is(c) {
			out[of(c)]++
		}
	}
	return out
}

func (t *taker) isFree(c topology.CPU) bool { return t.free[c.ID] }

// near returns what orders CPUs: those of nodes and sockets first of which there are some already, then those of the nodes with the least left.
func (t *taker) near() func(c topology.CPU) [3]int {
	taken := map[int]bool{}
	for _, id := range t.got {
		taken[id] = true
	}
	got := func(c topology.CPU) bool { return taken[c.ID] }
	nodes, sockets, left := t.count(node, got), t.count(socket, got), t.count(node, t.isFree)
	return func(c topology.CPU) [3]int {
		out := [3]int{1, 1, left[c.Node]}
		if nodes[c.Node] > 0 {
			out[0] = 0
		}
		if sockets[c.Socket] > 0 {
			out[1] = 0
		}
		return out
	}
}

// whole takes groups of CPUs none of which is in use, as long as all of one is needed.
func (t *taker) whole(of func(topology.CPU) int) {
	groups := map[int][]topology.CPU{}
	for _, c := range t.m.CPUs {
		groups[of(c)] = append(groups[of(c)], c)
	}
	for {
		near, best := t.near(), []topology.CPU(nil)
		for _, name := range slices.Sorted(maps.Keys(groups)) {
			group := groups[name]
			if len(group) > t.left || !all(group, t.isFree) {
				continue
			}
			if best == nil || compare(near(group[0]), near(best[0])) < 0 {
				best = group
			}
		}
		if best == nil {
			return
		}
		t.take(best...)
	}
}

func all(list []topology.CPU, is func(topology.CPU) bool) bool {
	return !slices.ContainsFunc(list, func(c topology.CPU) bool { return !is(c) })
}

func compare(a, b [3]int) int { return slices.Compare(a[:], b[:]) }

// rest takes single CPUs.
func (t *taker) rest() {
	for t.left > 0 {
		near, siblings := t.near(), t.count(core, t.isFree)
		list := slices.DeleteFunc(slices.Clone(t.m.CPUs), func(c topology.CPU) bool { return !t.isFree(c) })
		t.take(slices.MinFunc(list, func(a, b topology.CPU) int {
			return cmp.Or(compare(near(a), near(b)), cmp.Compare(siblings[a.Core], siblings[b.Core]), cmp.Compare(a.ID, b.ID))
		}))
	}
}

// spread chooses CPUs in equal parts from as few nodes as have them, so that none of them is the slow one; group is how many belong together. What one
// node has is taken from it, and where nothing can be had in equal parts, they are packed.
func spread(m topology.Machine, free cpuset.CPUSet, n, group int) (cpuset.CPUSet, error) {
	on := func(node int) int { return free.Intersection(m.On(topology.Of(node))).Size() }
	var best []int
	for set := range m.Nodes().Subsets() {
		nodes := set.Nodes()
		if len(nodes) == 1 {
			if on(nodes[0]) >= n {
				return take(m, free, n)
			}
			continue
		}
		if n < len(nodes)*group || best != nil && len(best) < len(nodes) {
			continue
		}
		slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(on(b), on(a)) }) // who has most gives what does not come out even
		fits := true
		for i, part := range parts(n, len(nodes), group) {
			fits = fits && on(nodes[i]) >= part
		}
		// Of sets of as many nodes the one that has most left is the most even.
		if fits && (best == nil || len(nodes) < len(best) || sum(nodes, on) > sum(best, on) || sum(nodes, on) == sum(best, on) && slices.Compare(slices.Sorted(slices.Values(nodes)), slices.Sorted(slices.Values(best))) < 0) {
			best = nodes
		}
	}
	if best == nil {
		return take(m, free, n)
	}
	got := cpuset.New()
	for i, part := range parts(n, len(best), group) {
		set, err := take(m, free.Intersection(m.On(topology.Of(best[i]))), part)
		if err != nil {
			return got, err
		}
		got = got.Union(set)
	}
	return got, nil
}

func sum(nodes []int, on func(int) int) (total int) {
	for _, n := range nodes {
		total += on(n)
	}
	return total
}

// parts shares n out among so many, in groups; the first get what does not come out even.
func parts(n, among, group int) []int {
	out := make([]int, among)
	for i := 0; n > 0; i = (i + 1) % among {
		out[i] += min(group, n)
		n -= min(group, n)
	}
	return out
}
