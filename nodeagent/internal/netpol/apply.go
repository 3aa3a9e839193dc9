package netpol

import (
	"errors"
	"fmt"

	"howdah.dev/nodeagent/bpf"
)

// apply makes the plan's writes, in this order: tables that nobody uses yet, changes of tables in use, then who uses what. What depends
// on a write that failed is left as it is, and tried again with the next plan.
func apply(m Maps, st *state, p plan) error {
	var errs []error
	failed := map[uint32]bool{}
	note := func(what string, err error) bool {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
		return err == nil
	}
	for _, a := range p.putOwn {
		if note("write an address of the node", m.Own.Put(encodeAddress(a), 1)) {
			st.own[a] = true
		}
	}
	for _, a := range p.dropOwn {
		if note("remove an address of the node", m.Own.Delete(encodeAddress(a))) {
			delete(st.own, a)
		}
	}
	for _, f := range p.fill {
		failed[f.set] = !note("write rules", write(m, st, f))
	}
	for _, c := range p.change {
		failed[c.set] = !note("change rules", modify(m, st, c))
	}
	for _, s := range p.put {
		if failed[s.value.Sets[Ingress]] || failed[s.value.Sets[Egress]] {
			continue
		}
		if note("write the rules of a pod", m.Subjects.Put(s.ifindex, s.value)) {
			st.point(s.ifindex, s.value)
		}
	}
	for _, ifindex := range p.drop {
		if note("remove the rules of a pod", m.Subjects.Delete(ifindex)) {
			st.point(ifindex, bpf.PolicySubject{})
			delete(st.subjects, ifindex)
		}
	}
	return errors.Join(errs...)
}

// write fills a set, from where an earlier try has ended.
func write(m Maps, st *state, f fill) error {
	have := st.set(f.set)
	st.filling[f.table] = f.set
	for p, bits := range f.table.Ports {
		if _, ok := have.Ports[p]; ok {
			continue
		}
		if err := m.Ports.Put(encodePort(f.set, p), encodeBits(bits)); err != nil {
			return err
		}
		have.Ports[p] = bits
	}
	for p, bits := range f.table.Peers {
		if _, ok := have.Peers[p]; ok {
			continue
		}
		if err := m.Peers.Put(encodePeer(f.set, p), encodeBits(bits)); err != nil {
			return err
		}
		have.Peers[p] = bits
	}
	have.holds = f.table
	return nil
}

func modify(m Maps, st *state, c change) error {
	have := st.set(c.set)
	have.holds = nil
	for _, s := range c.steps {
		if s.gone {
			if err := m.Peers.Delete(encodePeer(c.set, s.prefix)); err != nil {
				return err
			}
			delete(have.Peers, s.prefix)
			continue
		}
		if err := m.Peers.Put(encodePeer(c.set, s.prefix), encodeBits(s.bits)); err != nil {
			return err
		}
		have.Peers[s.prefix] = s.bits
	}
	have.holds = c.table
	return nil
}

// collect removes the sets that nothing points at, half-written ones too.
func collect(m Maps, st *state) error {
	var unused []uint32
	filling := map[uint32]bool{}
	for _, id := range st.filling {
		filling[id] = true
	}
	for id, s := range st.sets {
		if len(s.users) == 0 && !filling[id] {
			unused = append(unused, id)
		}
	}
	if len(unused) == 0 {
		return nil
	}
	if err := m.Barrier(); err != nil {
		return fmt.Errorf("remove rules: %w", err)
	}
	var errs []error
	for _, id := range unused {
		s := st.sets[id]
		for p := range s.Peers {
			if err := m.Peers.Delete(encodePeer(id, p)); err != nil {
				errs = append(errs, err)
				continue
			}
			delete(s.Peers, p)
		}
		for p := range s.Ports {
			if err := m.Ports.Delete(encodePort(id, p)); err != nil {
				errs = append(errs, err)
				continue
			}
			delete(s.Ports, p)
		}
		if len(s.Peers)+len(s.Ports) == 0 {
			delete(st.sets, id)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove rules: %w", err)
	}
	return nil
}
