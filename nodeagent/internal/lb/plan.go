package lb

import (
	"slices"

	"howdah.dev/nodeagent/bpf"
)

// change is one frontend's desired entry; nil: it is to go.
type change struct {
	frontend bpf.LBFrontendKey
	entry    *Entry
}

// wanted is the input of a plan. Frontends that are not named stay as they are; sources and nodes are complete
// (nil: they stay as they are).
type wanted struct {
	changes []change
	sources map[bpf.LBSourceKey]bool
	nodes   map[bpf.LBAddress]uint8
}

// newSet is a list of backends that has to be written before a frontend can point at it.
type newSet struct {
	id       uint32
	backends []bpf.LBBackend
}

type frontendPut struct {
	key   bpf.LBFrontendKey
	value bpf.LBFrontend
}

// plan is what to write, in the order of its fields: what is pointed at, before what points.
type plan struct {
	sets        []newSet
	putSources  []bpf.LBSourceKey
	putNodes    map[bpf.LBAddress]uint8
	put         []frontendPut
	drop        []bpf.LBFrontendKey
	dropSources []bpf.LBSourceKey
	dropNodes   []bpf.LBAddress
	// Sets that no frontend points at once the above is done are removed after it; apply finds them, since
	// they depend on which writes succeeded.
}

func (p plan) empty() bool {
	return len(p.sets)+len(p.putSources)+len(p.putNodes)+len(p.put)+len(p.drop)+len(p.dropSources)+len(p.dropNodes) == 0
}

// makePlan compares. It reads st and takes numbers for new sets from it, and changes nothing else.
func makePlan(st *state, w wanted) plan {
	p := plan{putNodes: map[bpf.LBAddress]uint8{}}
	fresh, planned := map[string]uint32{}, map[uint32]bool{}
	for _, c := range w.changes {
		have, exists := st.frontends[c.frontend]
		if c.entry == nil {
			if exists {
				p.drop = append(p.drop, c.frontend)
			}
			continue
		}
		value := encodeEntry(*c.entry)
		if len(c.entry.Backends) > 0 {
			backends := encodeBackends(c.entry.Backends)
			key := contents(backends)
			id, ok := st.byContents[key]
			if !ok {
				id, ok = fresh[key]
			}
			if !ok {
				id = st.nextSet(planned)
				fresh[key], planned[id] = id, true
				p.sets = append(p.sets, newSet{id: id, backends: backends})
			}
			value.Set = id
		}
		have.Next = 0
		if exists && have == value {
			continue
		}
		// Nodes and services start their rounds at different backends.
		value.Next = uint32(value.Service) + value.Set*2654435761
		p.put = append(p.put, frontendPut{key: c.frontend, value: value})
	}
	if w.sources != nil {
		p.putSources, p.dropSources = difference(w.sources, st.sources)
	}
	if w.nodes != nil {
		for a, role := range w.nodes {
			if st.nodes[a] != role {
				p.putNodes[a] = role
			}
		}
		for a := range st.nodes {
			if _, ok := w.nodes[a]; !ok {
				p.dropNodes = append(p.dropNodes, a)
			}
		}
	}
	return p
}

// differs says whether a frontend's entry in the kernel is not the one it should be.
func (st *state) differs(key bpf.LBFrontendKey, entry Entry, wanted bool) bool {
	have, exists := st.frontends[key]
	if !wanted || !exists {
		return wanted != exists
	}
	value := encodeEntry(entry)
	if len(entry.Backends) > 0 {
		value.Set = st.byContents[contents(encodeBackends(entry.Backends))]
	}
	have.Next = 0
	return have != value
}

func difference(want, have map[bpf.LBSourceKey]bool) (put, drop []bpf.LBSourceKey) {
	for k := range want {
		if !have[k] {
			put = append(put, k)
		}
	}
	for k := range have {
		if !want[k] {
			drop = append(drop, k)
		}
	}
	return put, drop
}

// unused lists the sets that nothing points at.
func (st *state) unused() []uint32 {
	var out []uint32
	for id, s := range st.sets {
		if s.users == 0 {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}
