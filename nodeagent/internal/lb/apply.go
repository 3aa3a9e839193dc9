package lb

import (
	"errors"
	"fmt"

	"howdah.dev/nodeagent/bpf"
)

// apply writes a plan and records in st what was written. It goes on after an error where that is safe, and
// returns all errors; the caller plans again from st.
//
// The order makes every moment whole: a set is complete before a frontend points at it; a frontend switches from
// one set to the next in one write; a set is removed (by collect, which has to follow) only when no frontend points at
// it and no program that read the old frontend still runs.
func apply(m Maps, st *state, p plan) error {
	var errs []error
	note := func(what string, err error) bool {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
		return err == nil
	}

	failed := map[uint32]bool{}
	for _, s := range p.sets {
		if !note("write backends", writeSet(m, st, s)) {
			failed[s.id] = true
		}
	}
	for _, k := range p.putSources {
		if note("write source range", m.Sources.Put(k, 1)) {
			st.sources[k] = true
		}
	}
	for a, role := range p.putNodes {
		if note("write node address", m.Nodes.Put(a, role)) {
			st.nodes[a] = role
		}
	}
	for _, f := range p.put {
		if failed[f.value.Set] {
			continue
		}
		if note("write frontend", m.Frontends.Put(f.key, f.value)) {
			st.point(f.key, f.value)
		}
	}
	for _, k := range p.drop {
		if note("remove frontend", m.Frontends.Delete(k)) {
			st.point(k, bpf.LBFrontend{})
			delete(st.frontends, k)
		}
	}
	for _, k := range p.dropSources {
		if note("remove source range", m.Sources.Delete(k)) {
			delete(st.sources, k)
		}
	}
	for _, a := range p.dropNodes {
		if note("remove node address", m.Nodes.Delete(a)) {
			delete(st.nodes, a)
		}
	}
	return errors.Join(errs...)
}

// point records that a frontend now has this value.
func (st *state) point(key bpf.LBFrontendKey, value bpf.LBFrontend) {
	if old, ok := st.frontends[key]; ok && old.Set != 0 {
		st.set(old.Set).users--
	}
	if value.Set != 0 {
		st.set(value.Set).users++
	}
	st.frontends[key] = value
}

func writeSet(m Maps, st *state, s newSet) error {
	have := st.set(s.id)
	for i, b := range s.backends {
		member := encodeMember(s.id, b)
		if err := m.Members.Put(member, 1); err != nil {
			return err
		}
		have.members[member] = true
		if err := m.Slots.Put(bpf.LBSlotKey{Set: s.id, Slot: uint32(i)}, b); err != nil {
			return err
		}
		have.slots[uint32(i)] = b
	}
	st.byContents[contents(s.backends)] = s.id
	return nil
}

// collect removes the sets that nothing points at, half-written ones too.
func collect(m Maps, st *state) error {
	unused := st.unused()
	if len(unused) == 0 {
		return nil
	}
	// From here on they can no longer be reused for new contents, whatever fails below.
	for _, id := range unused {
		if backends, ok := st.sets[id].complete(id); ok && st.byContents[contents(backends)] == id {
			delete(st.byContents, contents(backends))
		}
	}
	if err := m.Barrier(); err != nil {
		return fmt.Errorf("remove backends: %w", err)
	}
	var errs []error
	for _, id := range unused {
		s := st.sets[id]
		for slot := range s.slots {
			if err := m.Slots.Delete(bpf.LBSlotKey{Set: id, Slot: slot}); err != nil {
				errs = append(errs, err)
				continue
			}
			delete(s.slots, slot)
		}
		for member := range s.members {
			if err := m.Members.Delete(member); err != nil {
				errs = append(errs, err)
				continue
			}
			delete(s.members, member)
		}
		if len(s.slots)+len(s.members) == 0 {
			delete(st.sets, id)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove backends: %w", err)
	}
	return nil
}
