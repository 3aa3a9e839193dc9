package netpol

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"howdah.dev/nodeagent/bpf"
)

// wanted is what the maps are to hold: for each interface the key of its group in each direction ("": not isolated), and the groups' tables.
type wanted struct {
	subjects map[uint32][2]string
	tables   map[string]*Table   // equal pointers are equal tables
	own      map[netip.Addr]bool // nil: as they are
	left     map[uint32]bool     // interfaces that are there and keep what they have: a sandbox may outlive its pod while there is no agent
}

// plan is the way from the state to what is wanted.
type plan struct {
	fill    []fill   // sets that nothing points at yet
	change  []change // in place
	put     []put
	drop    []uint32
	putOwn  []netip.Addr
	dropOwn []netip.Addr
	sets    map[string]uint32 // of groups
}

type fill struct {
	set   uint32
	table *Table
}

// change turns a set's table into another one that has the same ports. Its steps are in an order in which every address goes from
// its old answer to its new one, with nothing between.
type change struct {
	set   uint32
	table *Table
	steps []step
}

type step struct {
	prefix netip.Prefix
	bits   Bits
	gone   bool
}

type put struct {
	ifindex uint32
	value   bpf.PolicySubject
}

func (p plan) empty() bool {
	return len(p.fill)+len(p.change)+len(p.put)+len(p.drop)+len(p.putOwn)+len(p.dropOwn) == 0
}

// makePlan compares. A group keeps the set that its pods point at if nobody else does and its ports are the same, so that only what
// differs of it is written; else it gets a new one.
func makePlan(st *state, w wanted) plan {
	p := plan{sets: map[string]uint32{}}
	members := map[string][]subject{}
	for _, ifindex := range slices.Sorted(maps.Keys(w.subjects)) {
		for _, d := range directions {
			if key := w.subjects[ifindex][d]; key != "" {
				members[key] = append(members[key], subject{ifindex, d})
			}
		}
	}
	taken, tables := map[uint32]bool{}, map[*Table]bool{}
	for _, table := range w.tables {
		tables[table] = true
	}
	for table, id := range st.filling {
		if !tables[table] || len(st.sets[id].users) > 0 {
			delete(st.filling, table)
			continue
		}
		taken[id] = true
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		table := w.tables[key]
		id := st.candidate(members[key], table, taken)
		if id == 0 {
			if id = st.filling[table]; id == 0 {
				id = st.nextSet(taken)
			}
			if have := st.sets[id]; have == nil || have.holds != table {
				p.fill = append(p.fill, fill{id, table})
			}
		} else if have := st.sets[id]; have.holds != table {
			if steps := difference(have.Peers, table.Peers); len(steps) > 0 {
				p.change = append(p.change, change{id, table, steps})
			} else {
				have.holds = table
			}
		}
		taken[id], p.sets[key] = true, id
	}
	for _, ifindex := range slices.Sorted(maps.Keys(w.subjects)) {
		var value bpf.PolicySubject
		for _, d := range directions {
			value.Sets[d] = p.sets[w.subjects[ifindex][d]]
		}
		if have, ok := st.subjects[ifindex]; !ok || have != value {
			p.put = append(p.put, put{ifindex, value})
		}
	}
	for ifindex := range st.subjects {
		if _, ok := w.subjects[ifindex]; !ok && !w.left[ifindex] {
			p.drop = append(p.drop, ifindex)
		}
	}
	slices.Sort(p.drop)
	if w.own == nil {
		return p
	}
	for a := range w.own {
		if !st.own[a] {
			p.putOwn = append(p.putOwn, a)
		}
	}
	for a := range st.own {
		if !w.own[a] {
			p.dropOwn = append(p.dropOwn, a)
		}
	}
	return p
}

// candidate finds a set of the members' that can be changed in place; 0 if there is none.
func (st *state) candidate(members []subject, table *Table, taken map[uint32]bool) uint32 {
	for _, m := range members {
		id := st.subjects[m.ifindex].Sets[m.direction]
		if id == 0 || taken[id] || st.sets[id].holds != table && !maps.Equal(st.sets[id].Ports, table.Ports) {
			continue
		}
		strangers := false
		for user := range st.sets[id].users {
			strangers = strangers || !slices.Contains(members, user)
		}
		if !strangers {
			return id
		}
	}
	return 0
}

// difference lists the steps from one table's peers to another's: what is added or changed, the longest prefixes first, so that
// each address that a step touches finds its final answer there; then what goes, the shortest first, so that what is under a prefix
// falls to an answer that is final already.
func difference(have, want map[netip.Prefix]Bits) []step {
	var out []step
	for p, bits := range want {
		if old, ok := have[p]; !ok || old != bits {
			out = append(out, step{prefix: p, bits: bits})
		}
	}
	for p := range have {
		if _, ok := want[p]; !ok {
			out = append(out, step{prefix: p, gone: true})
		}
	}
	slices.SortFunc(out, func(a, b step) int {
		if a.gone != b.gone {
			if b.gone {
				return -1
			}
			return 1
		}
		order := cmp.Compare(length(b.prefix), length(a.prefix))
		if a.gone {
			order = -order
		}
		return cmp.Or(order, a.prefix.Compare(b.prefix))
	})
	return out
}

// length is a prefix's length in the kernel's trie, where IPv4 is a part of IPv6.
func length(p netip.Prefix) int {
	if p.Addr().Is4() {
		return p.Bits() + mappedBits
	}
	return p.Bits()
}
