package netpol

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"howdah.dev/nodeagent/bpf"
	"howdah.dev/nodeagent/internal/pinned"
)

// tcFilterPrefix begins the names of our filters.
const tcFilterPrefix = "howdah_policy_"

// Pins of links begin so; the interface's name follows.
const (
	pinToPod   = "to_pod_"
	pinFromPod = "from_pod_"
)

// datapath is the loaded programs and maps.
type datapath struct {
	pins    string
	tcx     bool
	objects bpf.PolicyObjects
	barrier *pinned.Barrier
}

// loadDatapath loads the programs over the pinned maps. What is attached already goes on running until attach.
func loadDatapath(cfg Config) (d *datapath, reused bool, err error) {
	if err := pinned.Folder(cfg.Pins); err != nil {
		return nil, false, err
	}
	spec, err := bpf.LoadPolicy()
	if err != nil {
		return nil, false, err
	}
	d = &datapath{pins: cfg.Pins}
	if reused, err = pinned.Load(spec, &d.objects, cfg.Pins); err != nil {
		return nil, false, explainLoad(err)
	}
	if d.barrier, err = pinned.NewBarrier(); err != nil {
		return nil, false, errors.Join(err, d.objects.Close())
	}
	if !cfg.WithoutTCX {
		if d.tcx, err = pinned.SupportsTCX(d.objects.PolicyToPod); err != nil {
			return nil, false, errors.Join(err, d.close())
		}
	}
	return d, reused, nil
}

func explainLoad(err error) error {
	var verifier *ebpf.VerifierError
	switch {
	case errors.As(err, &verifier):
		return fmt.Errorf("the kernel refuses the network policies' programs (they need Linux 5.18): %+v", verifier)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("not allowed to load eBPF programs (CAP_SYS_ADMIN, or CAP_BPF and CAP_NET_ADMIN, is needed): %w", err)
	}
	return fmt.Errorf("load eBPF programs: %w", err)
}

func (d *datapath) maps() Maps {
	return mapsOf(&d.objects.PolicyMaps, d.barrier.Wait)
}

func mapsOf(o *bpf.PolicyMaps, barrier func() error) Maps {
	return Maps{
		Subjects: pinned.Kernel[uint32, bpf.PolicySubject]{M: o.Subjects},
		Own:      pinned.Kernel[bpf.PolicyAddress, uint8]{M: o.Own},
		Peers:    pinned.Kernel[bpf.PolicyPeerKey, bpf.PolicyBits]{M: o.Peers},
		Ports:    pinned.Kernel[bpf.PolicyPortKey, bpf.PolicyBits]{M: o.Ports},
		Barrier:  barrier,
	}
}

// close frees the agent's hold; what is pinned stays and works on.
func (d *datapath) close() error { return errors.Join(d.objects.Close(), d.barrier.Close()) }

// drops counts the packets that no rule allowed in a direction.
func (d *datapath) drops(direction Direction) float64 {
	return count(d.objects.Drops, uint32(direction))
}

// spoofed counts the packets that came from no address of their pod.
func (d *datapath) spoofed() float64 { return count(d.objects.Spoofed, 0) }

// count sums up what each CPU has counted under a key.
func count(m *ebpf.Map, key uint32) float64 {
	var counts []uint64
	if err := m.Lookup(key, &counts); err != nil {
		return 0
	}
	sum := 0.0
	for _, n := range counts {
		sum += float64(n)
	}
	return sum
}

// attach puts the programs at an interface. Those of an earlier run are replaced in one step, so no packet ever meets none. The load balancer's may be
// there, too: rules are about a service's pods, so they judge what comes from the pod after it did its part, and what goes to it before.
func (d *datapath) attach(name string, index int) error {
	hooks := []pinned.Hook{
		{Egress: true, Program: d.objects.PolicyToPod, Pin: pinToPod + name, Filter: tcFilterPrefix + "to_pod", Anchor: link.Head(), Priority: pinned.Middle},
		{Program: d.objects.PolicyFromPod, Pin: pinFromPod + name, Filter: tcFilterPrefix + "from_pod", Anchor: link.Tail(), Priority: pinned.Middle},
	}
	if d.tcx {
		return pinned.AttachTCX(d.pins, index, name, hooks...)
	}
	return pinned.AttachTC(index, name, hooks...)
}

// tidy forgets the links of interfaces that are gone.
func (d *datapath) tidy(there map[string]int) error {
	return pinned.Tidy(d.pins, there, pinToPod, pinFromPod)
}

// Detach takes the programs away and forgets the maps: for a node that leaves the cluster, and for tests.
func Detach(pins string) error {
	return errors.Join(pinned.DetachTC(tcFilterPrefix, nil), pinned.Remove(pins))
}
