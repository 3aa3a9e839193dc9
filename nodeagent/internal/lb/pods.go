package lb

import (
	"context"
	"errors"
	"fmt"

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

// Adopt takes in a pod's interface, by the name of the node's end; it does not wait. An interface that is gone is forgotten.
func (b *Balancer) Adopt(name string) { b.adopt(name) }

// Join is Adopt that waits until what the pod sends through the interface is balanced. Only SCTP needs that, for which there are no programs at
// sockets: while no service has a port of it, nothing is at pods' interfaces, and nobody waits.
func (b *Balancer) Join(ctx context.Context, name string) error {
	if !b.adopt(name) {
		return nil
	}
	if err := b.Settled(ctx); err != nil {
		return fmt.Errorf("services are not balanced at the pod's interface yet: %w", err)
	}
	return nil
}

// adopt tells whether there is something to balance at the interface, and nothing yet that does.
func (b *Balancer) adopt(name string) bool {
	b.mu.Lock()
	attached := b.links[name]
	b.links[name] = attached
	wait := b.byPacket && !attached
	b.mu.Unlock()
	if wait {
		b.poke()
	}
	return wait
}

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

// attachPods puts the programs at the interfaces of pods that have not got them; what they look up is in the maps. With full set it does so anew,
// forgets the interfaces that are gone, and, where nothing needs them, takes away the programs that an earlier run has left.
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
	for _, name := range s.unattached() {
		err := s.datapath.attachPod(name)
		var gone netlink.LinkNotFoundError
		s.mu.Lock()
		switch {
		case err == nil:
			s.links[name] = true
		case errors.As(err, &gone): // and what is at it with it
			delete(s.links, name)
		default:
			errs = append(errs, err)
		}
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}

// unattached lists the interfaces that are to get the programs.
func (s *syncer) unattached() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name, attached := range s.links {
		if s.byPacket && !attached {
			out = append(out, name)
		}
	}
	return out
}

// tidyPods compares with the interfaces that there are.
func (s *syncer) tidyPods() error {
	there, err := pinned.Interfaces()
	if err != nil {
		return err
	}
	s.mu.Lock()
	byPacket := s.byPacket
	for name := range s.links {
		if _, ok := there[name]; !ok {
			delete(s.links, name)
			continue
		}
		s.links[name] = false
	}
	s.mu.Unlock()
	if !byPacket {
		return s.datapath.detachPods()
	}
	return pinned.Tidy(s.datapath.at.Pins, there, pinToPod, pinFromPod)
}

// attachPod puts the programs at a pod's interface, around those of network policies: a pod's packet has its backend's address when they judge it,
// and an answer still has. The way back comes first.
func (d *datapath) attachPod(name string) error {
	at, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("look for interface %s: %w", name, err)
	}
	return d.attachTo(at.Attrs().Index, name,
		pinned.Hook{Egress: true, Program: d.objects.LbToPod, Pin: pinToPod + name, Filter: tcPodPrefix + "to", Anchor: link.Tail(), Priority: pinned.Last},
		pinned.Hook{Program: d.objects.LbFromPod, Pin: pinFromPod + name, Filter: tcPodPrefix + "from", Anchor: link.Head(), Priority: pinned.First})
}

func (d *datapath) detachPods() error {
	err := pinned.Tidy(d.at.Pins, nil, pinToPod, pinFromPod)
	if !d.tcx {
		err = errors.Join(err, pinned.DetachTC(tcPodPrefix, nil))
	}
	if err != nil {
		return fmt.Errorf("detach from pods: %w", err)
	}
	return nil
}
