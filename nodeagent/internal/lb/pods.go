package lb

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"howdah.dev/nodeagent/bpf"
	"howdah.dev/nodeagent/internal/pinned"
)

// Pins of links at pods' interfaces begin so.
const (
	pinToPod   = "pod_to_"
	pinFromPod = "pod_from_"
)

// podLink is the node's end of a pod's interface.
type podLink struct {
	// ownStack says that the pod has a network stack of its own.
	ownStack bool
	// attached says that this run's programs are there.
	attached bool
}

// Adopt takes in a pod's interface, by the name of the node's end; it does not wait. ownStack says that the pod's sandbox has a network stack of its own, as a
// virtual machine has: it opens no sockets of the node's, where its connections would be balanced. An interface that is gone is forgotten.
func (b *Balancer) Adopt(name string, ownStack bool) { b.adopt(name, ownStack) }

// Join is Adopt that waits until what the pod sends through the interface is balanced. Only SCTP needs that, for which there are no programs at
// sockets, and stacks of pods' own: else, while no service has a port of SCTP, nothing is at pods' interfaces, and nobody waits. Nor does anybody where the
// node cannot balance at all, and says so.
func (b *Balancer) Join(ctx context.Context, name string, ownStack bool) error {
	if !b.adopt(name, ownStack) {
		return nil
	}
	if err := b.Settled(ctx); err != nil {
		return fmt.Errorf("services are not balanced at the pod's interface yet: %w", err)
	}
	return nil
}

// adopt tells whether there is something to balance at the interface, and nothing yet that does.
func (b *Balancer) adopt(name string, ownStack bool) bool {
	b.mu.Lock()
	l := b.links[name]
	if l == nil {
		l = &podLink{ownStack: ownStack}
		b.links[name] = l
	}
	wait := b.needsPrograms(l) && !l.attached && !b.ended
	b.mu.Unlock()
	if wait {
		b.poke()
	}
	return wait
}

// needsPrograms says whether something is balanced at the interface; b.mu is held.
func (b *Balancer) needsPrograms(l *podLink) bool { return l.ownStack || b.byPacket }

// needsPackets says whether a frontend is balanced packet by packet where pods dial it.
func needsPackets(k bpf.LBFrontendKey) bool {
	return k.Protocol == protocolSCTP && Scope(k.Scope)&Outside == 0
}

// heedPods remembers that there is, or was, something to balance at pods' interfaces.
func (s *syncer) heedPods(changes []change) {
	for _, c := range changes {
		if c.entry != nil && needsPackets(c.frontend) {
			s.mu.Lock()
			s.byPacket = true
			s.mu.Unlock()
			return
		}
	}
}

// attachPods puts the programs at the interfaces of pods that need and have not got them; what they look up is in the maps. With full set it does so anew,
// and forgets the interfaces that are gone.
func (s *syncer) attachPods(full bool) error {
	if s.datapath == nil {
		return nil
	}
	if full {
		if err := s.tidyPods(); err != nil {
			return err
		}
	}
	var errs []error
	for name, l := range s.unattached() {
		err := s.datapath.attachPod(name, l.ownStack)
		var gone netlink.LinkNotFoundError
		s.mu.Lock()
		switch {
		case err == nil:
			l.attached = true
		case errors.As(err, &gone): // and what is at it with it
			delete(s.links, name)
		default:
			errs = append(errs, err)
		}
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}

// unattached are the interfaces that are to get the programs.
func (s *syncer) unattached() map[string]*podLink {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := maps.Clone(s.links)
	maps.DeleteFunc(out, func(_ string, l *podLink) bool { return l.attached || !s.needsPrograms(l) })
	return out
}

// tidyPods compares with the interfaces that there are, and takes the programs from those that do not need them: not the first time, when pods of an
// earlier life may not have been adopted yet.
func (s *syncer) tidyPods() error {
	there, err := pinned.Interfaces()
	if err != nil {
		return err
	}
	keep := map[string]int{}
	s.mu.Lock()
	for name, l := range s.links {
		index, ok := there[name]
		if !ok {
			delete(s.links, name)
			continue
		}
		l.attached = false
		if s.needsPrograms(l) {
			keep[name] = index
		}
	}
	s.mu.Unlock()
	if !s.attached {
		keep = there
	}
	return s.datapath.detachPods(keep)
}

// attachPod puts the programs at a pod's interface, around those of network policies: a pod's packet has its backend's address when they judge it,
// and an answer still has. The way back comes first.
func (d *datapath) attachPod(name string, ownStack bool) error {
	at, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("look for interface %s: %w", name, err)
	}
	to, from := d.objects.LbToPod, d.objects.LbFromPod
	if ownStack {
		to, from = d.objects.LbToStack, d.objects.LbFromStack
	}
	return d.attachTo(at.Attrs().Index, name,
		pinned.Hook{Egress: true, Program: to, Pin: pinToPod + name, Filter: tcPodPrefix + "to", Anchor: link.Tail(), Priority: pinned.Last},
		pinned.Hook{Program: from, Pin: pinFromPod + name, Filter: tcPodPrefix + "from", Anchor: link.Head(), Priority: pinned.First})
}

// detachPods takes the programs from pods' interfaces but these, by name.
func (d *datapath) detachPods(keep map[string]int) error {
	err := pinned.Tidy(d.at.Pins, keep, pinToPod, pinFromPod)
	if !d.tcx {
		byIndex := map[int]bool{}
		for _, index := range keep {
			byIndex[index] = true
		}
		err = errors.Join(err, pinned.DetachTC(tcPodPrefix, byIndex))
	}
	if err != nil {
		return fmt.Errorf("detach from pods: %w", err)
	}
	return nil
}
