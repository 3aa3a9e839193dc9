package lb

import (
	"errors"
	"fmt"
	"net"
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

// Pins of links at uplinks, and names of filters anywhere, begin so. By the names, filters of an earlier run are found again.
const (
	pinEgress      = "tcx_egress_"
	pinIngress     = "tcx_ingress_"
	tcUplinkPrefix = "howdah_lb_"
	tcPodPrefix    = "howdah_pod_"
)

// attachUplinks puts the programs at the uplinks, and takes them from former ones. The way back comes first: nothing is translated on the way in before
// that stands.
func (d *datapath) attachUplinks() error {
	there, byIndex := map[string]int{}, map[int]bool{}
	for _, name := range d.at.Uplinks {
		uplink, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("uplink %s: %w", name, err)
		}
		there[name], byIndex[uplink.Index] = uplink.Index, true
		if err := d.attachTo(uplink.Index, name,
			pinned.Hook{Egress: true, Program: d.objects.LbEgress, Pin: pinEgress + name, Filter: tcUplinkPrefix + "egress", Priority: pinned.Middle},
			pinned.Hook{Program: d.objects.LbIngress, Pin: pinIngress + name, Filter: tcUplinkPrefix + "ingress", Priority: pinned.Middle}); err != nil {
			return err
		}
	}
	if err := pinned.Tidy(d.at.Pins, there, pinEgress, pinIngress); err != nil {
		return fmt.Errorf("detach from a former uplink: %w", err)
	}
	if d.tcx {
		return nil
	}
	return pinned.DetachTC(tcUplinkPrefix, byIndex)
}

// attachTo puts programs at an interface by what the kernel has for that.
func (d *datapath) attachTo(index int, name string, hooks ...pinned.Hook) error {
	if d.tcx {
		return pinned.AttachTCX(d.at.Pins, index, name, hooks...)
	}
	return pinned.AttachTC(index, name, hooks...)
}

// Detach takes the programs away and forgets the maps: for a node that leaves the cluster, and for tests.
func Detach(pins string) error {
	if err := errors.Join(pinned.DetachTC(tcUplinkPrefix, nil), pinned.DetachTC(tcPodPrefix, nil)); err != nil {
		return fmt.Errorf("take filters from the interfaces: %w", err)
	}
	return pinned.Remove(pins)
}
