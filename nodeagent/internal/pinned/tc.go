package pinned

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"howdah.dev/nodeagent/internal/dump"
)

// SupportsTCX says whether the kernel has tcx (Linux 6.6). Older ones, such as Debian 12's 6.1, have only tc filters. The program
// is one for SchedCLS; it is attached to loopback for a moment.
func SupportsTCX(program *ebpf.Program) (bool, error) {
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

// AttachTC puts programs at an interface as filters of tc's clsact queue, in this order. The kernel keeps them over restarts, and replaces a
// filter's program in one step.
func AttachTC(index int, name string, hooks ...Hook) error {
	queue := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
	if err := netlink.QdiscAdd(queue); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add clsact to %s (the kernel needs CONFIG_NET_SCH_INGRESS): %w", name, err)
	}
	for _, h := range hooks {
		parent := uint32(netlink.HANDLE_MIN_INGRESS)
		if h.Egress {
			parent = netlink.HANDLE_MIN_EGRESS
		}
		filter := &netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: parent, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: h.Priority},
			Fd:          h.Program.FD(), Name: h.Filter, DirectAction: true,
		}
		if err := netlink.FilterReplace(filter); err != nil {
			return fmt.Errorf("attach %s at %s (the kernel needs CONFIG_NET_CLS_BPF): %w", h.Filter, name, err)
		}
	}
	return nil
}

// DetachTC takes the filters whose names begin so from all interfaces but those to keep, by index.
func DetachTC(prefix string, keep map[int]bool) error {
	links, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	var errs []error
	for _, l := range links {
		if keep[l.Attrs().Index] {
			continue
		}
		for _, parent := range []uint32{netlink.HANDLE_MIN_EGRESS, netlink.HANDLE_MIN_INGRESS} {
			filters, err := dump.Whole(func() ([]netlink.Filter, error) { return netlink.FilterList(l, parent) })
			if err != nil {
				continue // it has no clsact, or it ended just now
			}
			for _, f := range filters {
				if b, ok := f.(*netlink.BpfFilter); ok && strings.HasPrefix(b.Name, prefix) {
					errs = append(errs, remove(b))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// remove takes a filter away that was there a moment ago. Its interface, and with it the filter, may have gone meanwhile, as that of a pod that ends.
func remove(filter *netlink.BpfFilter) error {
	if err := netlink.FilterDel(filter); err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove the filter %s of interface %d: %w", filter.Name, filter.LinkIndex, err)
	}
	return nil
}
