package lb

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// tcFilterPrefix begins the names of our filters: by it, those of an earlier run are found again.
const tcFilterPrefix = "howdah_lb_"

// tcPriority leaves room before and after for filters of others.
const tcPriority = 20

// supportsTCX says whether the kernel has tcx (Linux 6.6). Older ones, such as Debian 12's 6.1, have only tc filters.
func supportsTCX(program *ebpf.Program) (bool, error) {
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		return false, fmt.Errorf("look for tcx: %w", err)
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: loopback.Index, Program: program, Attach: ebpf.AttachTCXEgress})
	if errors.Is(err, ebpf.ErrNotSupported) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for tcx: %w", err)
	}
	return true, l.Close()
}

// attachTC puts the programs at the uplinks as filters of tc's clsact queue. The kernel keeps them over restarts, and
// replaces a filter's program in one step.
func (d *datapath) attachTC() error {
	keep := map[int]bool{}
	for _, name := range d.at.Uplinks {
		uplink, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("uplink %s: %w", name, err)
		}
		index := uplink.Attrs().Index
		keep[index] = true
		queue := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
		}}
		if err := netlink.QdiscAdd(queue); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add clsact to %s (the kernel needs CONFIG_NET_SCH_INGRESS): %w", name, err)
		}
		// The way back first: nothing is translated on the way in before it stands.
		for _, h := range []struct {
			name    string
			parent  uint32
			program *ebpf.Program
		}{
			{"egress", netlink.HANDLE_MIN_EGRESS, d.objects.LbEgress},
			{"ingress", netlink.HANDLE_MIN_INGRESS, d.objects.LbIngress},
		} {
			filter := &netlink.BpfFilter{
				FilterAttrs: netlink.FilterAttrs{
					LinkIndex: index, Parent: h.parent, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: tcPriority,
				},
				Fd: h.program.FD(), Name: tcFilterPrefix + h.name, DirectAction: true,
			}
			if err := netlink.FilterReplace(filter); err != nil {
				return fmt.Errorf("attach %s at %s (the kernel needs CONFIG_NET_CLS_BPF): %w", h.name, name, err)
			}
		}
	}
	return detachTC(keep)
}

// detachTC takes our filters from all interfaces but those to keep, by index.
func detachTC(keep map[int]bool) error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	var errs []error
	for _, l := range links {
		if keep[l.Attrs().Index] {
			continue
		}
		for _, parent := range []uint32{netlink.HANDLE_MIN_EGRESS, netlink.HANDLE_MIN_INGRESS} {
			filters, err := netlink.FilterList(l, parent)
			if err != nil {
				continue // it has no clsact, or it ended just now
			}
			for _, f := range filters {
				if b, ok := f.(*netlink.BpfFilter); ok && strings.HasPrefix(b.Name, tcFilterPrefix) {
					errs = append(errs, netlink.FilterDel(f))
				}
			}
		}
	}
	return errors.Join(errs...)
}
