package lb

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"howdah.dev/nodeagent/internal/pinned"
)

// attach puts the programs to work. A link of an earlier run is switched to the new program in one step, so no
// connection ever meets none.
func (d *datapath) attach() error {
	var cgroup unix.Stat_t
	if err := unix.Stat(d.at.Cgroup, &cgroup); err != nil {
		return fmt.Errorf("stat cgroup %s: %w", d.at.Cgroup, err)
	}
	for _, h := range []struct {
		kind    ebpf.AttachType
		program *ebpf.Program
	}{
		{ebpf.AttachCGroupInet4Connect, d.objects.LbConnect4},
		{ebpf.AttachCGroupInet6Connect, d.objects.LbConnect6},
		{ebpf.AttachCGroupUDP4Sendmsg, d.objects.LbSendmsg4},
		{ebpf.AttachCGroupUDP6Sendmsg, d.objects.LbSendmsg6},
		{ebpf.AttachCGroupUDP4Recvmsg, d.objects.LbRecvmsg4},
		{ebpf.AttachCGroupUDP6Recvmsg, d.objects.LbRecvmsg6},
		{ebpf.AttachCgroupInet4GetPeername, d.objects.LbGetpeername4},
		{ebpf.AttachCgroupInet6GetPeername, d.objects.LbGetpeername6},
	} {
		err := pinned.Link(filepath.Join(d.at.Pins, "cgroup_"+h.kind.String()), h.program,
			func(i *link.Info) bool { return i.Cgroup() != nil && i.Cgroup().CgroupId == cgroup.Ino },
			func() (link.Link, error) {
				return link.AttachCgroup(link.CgroupOptions{Path: d.at.Cgroup, Attach: h.kind, Program: h.program})
			})
		if err != nil {
			return fmt.Errorf("attach %s at cgroup %s (it must be a cgroup2; the kernel needs CONFIG_CGROUP_BPF): %w", h.kind, d.at.Cgroup, err)
		}
	}
	return d.attachUplinks()
}

func (d *datapath) attachUplinks() error {
	tcx := !d.at.WithoutTCX
	if tcx {
		var err error
		if tcx, err = pinned.SupportsTCX(d.objects.LbEgress); err != nil {
			return err
		}
	}
	if tcx {
		return d.attachTCX()
	}
	return d.attachTC()
}

func (d *datapath) attachTCX() error {
	keep := map[string]bool{}
	for _, name := range d.at.Uplinks {
		uplink, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("uplink %s: %w", name, err)
		}
		for _, h := range []struct {
			pin     string
			kind    ebpf.AttachType
			program *ebpf.Program
		}{
			// The way back first: nothing is translated on the way in before it stands.
			{"tcx_egress_" + name, ebpf.AttachTCXEgress, d.objects.LbEgress},
			{"tcx_ingress_" + name, ebpf.AttachTCXIngress, d.objects.LbIngress},
		} {
			keep[h.pin] = true
			err := pinned.Link(filepath.Join(d.at.Pins, h.pin), h.program,
				func(i *link.Info) bool { return i.TCX() != nil && int(i.TCX().Ifindex) == uplink.Index },
				func() (link.Link, error) {
					return link.AttachTCX(link.TCXOptions{Interface: uplink.Index, Program: h.program, Attach: h.kind})
				})
			if err != nil {
				return fmt.Errorf("attach %s at %s (the kernel needs CONFIG_NET_XGRESS): %w", h.kind, name, err)
			}
		}
	}
	pins, err := filepath.Glob(filepath.Join(d.at.Pins, "tcx_*"))
	if err != nil {
		return err
	}
	for _, pin := range pins {
		if !keep[filepath.Base(pin)] {
			if err := os.Remove(pin); err != nil {
				return fmt.Errorf("detach from a former uplink: %w", err)
			}
		}
	}
	return nil
}

// Detach takes the programs away and forgets the maps: for a node that leaves the cluster, and for tests.
func Detach(pins string) error {
	if err := pinned.DetachTC(tcFilterPrefix, nil); err != nil {
		return fmt.Errorf("take filters from the interfaces: %w", err)
	}
	return pinned.Remove(pins)
}
