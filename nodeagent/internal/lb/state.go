package lb

import (
	"fmt"

	"howdah.dev/nodeagent/bpf"
	"howdah.dev/nodeagent/internal/pinned"
)

// Maps are the maps that the agent writes.
type Maps struct {
	Frontends pinned.Map[bpf.LBFrontendKey, bpf.LBFrontend]
	Slots     pinned.Map[bpf.LBSlotKey, bpf.LBBackend]
	Members   pinned.Map[bpf.LBMemberKey, uint8]
	Sources   pinned.Map[bpf.LBSourceKey, uint8]
	Nodes     pinned.Map[bpf.LBAddress, uint8]
	// Barrier returns when no program runs any more that could have read what was replaced before the call.
	Barrier func() error
}

// set is one list of backends in the kernel. It is never changed: other contents get another number.
type set struct {
	slots   map[uint32]bpf.LBBackend // may have holes if writing it failed half way
	members map[bpf.LBMemberKey]bool
	users   int // frontends that point at it
}

// state is what the maps hold, mirrored in memory. Every write that succeeded is recorded here, and only those.
type state struct {
	frontends  map[bpf.LBFrontendKey]bpf.LBFrontend
	sets       map[uint32]*set
	byContents map[string]uint32 // complete sets only
	sources    map[bpf.LBSourceKey]bool
	nodes      map[bpf.LBAddress]uint8
	lastSet    uint32
}

// readState reads the maps, as an agent does that starts where another one ran.
func readState(m Maps) (*state, error) {
	st := &state{
		sets:       map[uint32]*set{},
		byContents: map[string]uint32{},
		sources:    map[bpf.LBSourceKey]bool{},
	}
	var err error
	if st.frontends, err = m.Frontends.All(); err != nil {
		return nil, fmt.Errorf("read frontends: %w", err)
	}
	slots, err := m.Slots.All()
	if err != nil {
		return nil, fmt.Errorf("read slots: %w", err)
	}
	members, err := m.Members.All()
	if err != nil {
		return nil, fmt.Errorf("read members: %w", err)
	}
	sources, err := m.Sources.All()
	if err != nil {
		return nil, fmt.Errorf("read sources: %w", err)
	}
	if st.nodes, err = m.Nodes.All(); err != nil {
		return nil, fmt.Errorf("read nodes: %w", err)
	}
	for k, b := range slots {
		st.set(k.Set).slots[k.Slot] = b
	}
	for k := range members {
		st.set(k.Set).members[k] = true
	}
	for k := range sources {
		st.sources[k] = true
	}
	for _, f := range st.frontends {
		if f.Set != 0 {
			st.set(f.Set).users++
		}
	}
	for id, s := range st.sets {
		if backends, ok := s.complete(id); ok {
			st.byContents[contents(backends)] = id
		}
	}
	return st, nil
}

// set finds a set or starts an empty one.
func (st *state) set(id uint32) *set {
	s := st.sets[id]
	if s == nil {
		s = &set{slots: map[uint32]bpf.LBBackend{}, members: map[bpf.LBMemberKey]bool{}}
		st.sets[id] = s
	}
	st.lastSet = max(st.lastSet, id)
	return s
}

// complete gives the backends in order if no slot and no member is missing.
func (s *set) complete(id uint32) ([]bpf.LBBackend, bool) {
	if len(s.slots) == 0 || len(s.members) != len(s.slots) {
		return nil, false
	}
	out := make([]bpf.LBBackend, len(s.slots))
	for i := range out {
		b, ok := s.slots[uint32(i)]
		if !ok || !s.members[encodeMember(id, b)] {
			return nil, false
		}
		out[i] = b
	}
	return out, true
}

// nextSet gives a number that no set has. Numbers grow; after the last one they start again, past those in use.
func (st *state) nextSet(planned map[uint32]bool) uint32 {
	for {
		st.lastSet++
		if st.lastSet == 0 {
			continue
		}
		if _, used := st.sets[st.lastSet]; !used && !planned[st.lastSet] {
			return st.lastSet
		}
	}
}
