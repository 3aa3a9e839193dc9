package netpol

import (
	"fmt"
	"net/netip"

	"howdah.dev/nodeagent/bpf"
	"howdah.dev/nodeagent/internal/pinned"
)

// Maps are the maps that the agent writes.
type Maps struct {
	Subjects pinned.Map[uint32, bpf.PolicySubject]
	Own      pinned.Map[bpf.PolicyAddress, uint8]
	Peers    pinned.Map[bpf.PolicyPeerKey, bpf.PolicyBits]
	Ports    pinned.Map[bpf.PolicyPortKey, bpf.PolicyBits]
	// Barrier returns when no program runs any more that could have read what was replaced before the call.
	Barrier func() error
}

// set is one table in the kernel.
type set struct {
	Table
	holds *Table           // the table that is known to have been written whole
	users map[subject]bool // that point at it
}

// subject is a pod's interface in one direction.
type subject struct {
	ifindex   uint32
	direction Direction
}

// state is what the maps hold, mirrored in memory. Every write that succeeded is recorded here, and only those.
type state struct {
	subjects map[uint32]bpf.PolicySubject
	own      map[netip.Addr]bool
	sets     map[uint32]*set
	filling  map[*Table]uint32 // sets that nothing points at yet
	lastSet  uint32
}

// readState reads the maps, as an agent does that starts where another one ran.
func readState(m Maps) (*state, error) {
	st := &state{subjects: map[uint32]bpf.PolicySubject{}, own: map[netip.Addr]bool{}, sets: map[uint32]*set{}, filling: map[*Table]uint32{}}
	subjects, err := m.Subjects.All()
	if err != nil {
		return nil, fmt.Errorf("read subjects: %w", err)
	}
	own, err := m.Own.All()
	if err != nil {
		return nil, fmt.Errorf("read the node's addresses: %w", err)
	}
	peers, err := m.Peers.All()
	if err != nil {
		return nil, fmt.Errorf("read peers: %w", err)
	}
	ports, err := m.Ports.All()
	if err != nil {
		return nil, fmt.Errorf("read ports: %w", err)
	}
	for a := range own {
		st.own[bpf.LBAddress(a).Addr()] = true
	}
	for k, b := range peers {
		st.set(k.Set).Peers[decodePeer(k)] = b.W
	}
	for k, b := range ports {
		st.set(k.Set).Ports[decodePort(k)] = b.W
	}
	for ifindex, s := range subjects {
		st.point(ifindex, s)
	}
	return st, nil
}

// set finds a set or starts an empty one.
func (st *state) set(id uint32) *set {
	s := st.sets[id]
	if s == nil {
		s = &set{Table: Table{Peers: map[netip.Prefix]Bits{}, Ports: map[PortPrefix]Bits{}}, users: map[subject]bool{}}
		st.sets[id] = s
	}
	st.lastSet = max(st.lastSet, id)
	return s
}

// point records that a subject now has this value.
func (st *state) point(ifindex uint32, value bpf.PolicySubject) {
	for _, d := range directions {
		who := subject{ifindex, d}
		if old := st.subjects[ifindex].Sets[d]; old != 0 {
			delete(st.set(old).users, who)
		}
		if now := value.Sets[d]; now != 0 {
			st.set(now).users[who] = true
		}
	}
	st.subjects[ifindex] = value
}

// nextSet gives a number that no set has. Numbers grow; after the last one they start again, past those in use.
func (st *state) nextSet(planned map[uint32]bool) uint32 {
	for {
		st.lastSet++
		if _, used := st.sets[st.lastSet]; st.lastSet != 0 && !used && !planned[st.lastSet] {
			return st.lastSet
		}
	}
}

// entries counts what is in the tries.
func (st *state) entries() int {
	n := 0
	for _, s := range st.sets {
		n += len(s.Peers) + len(s.Ports)
	}
	return n
}
