package route

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"howdah.dev/nodeagent/internal/dump"
)

// protocol marks our routes in the kernel's table, so that no others are touched.
const protocol = 201

// unreachableMetric lets every other route to the same prefix win.
const unreachableMetric = 4096

// Reconcile makes the routes of ours in the kernel be those wanted. It goes on after an error and returns all of
// them; calling it again is safe.
func Reconcile(want []Route) error {
	tunnel, err := tunnelIndex()
	if err != nil {
		return err
	}
	have, err := List()
	if err != nil {
		return err
	}
	p := Compare(have, want)
	var errs []error
	for _, r := range p.Put {
		// A route that changes its kind has another metric: the old one has to go, after the new one is there.
		if err := netlink.RouteReplace(kernelRoute(r, tunnel)); err != nil {
			errs = append(errs, explain(r, err))
			continue
		}
		for _, old := range have {
			if old.place() == r.place() && old.Unreachable() != r.Unreachable() {
				p.Drop = append(p.Drop, old)
			}
		}
	}
	for _, r := range p.Drop {
		if err := netlink.RouteDel(kernelRoute(r, tunnel)); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("remove route %s: %w", r, err))
		}
	}
	return errors.Join(errs...)
}

// List reads the routes of ours.
func List() ([]Route, error) {
	tunnel, err := tunnelIndex()
	if err != nil {
		return nil, err
	}
	var out []Route
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := dump.Whole(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(family, &netlink.Route{Protocol: protocol, Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, r := range routes {
			if r.Dst == nil {
				continue
			}
			addr, ok := netip.AddrFromSlice(r.Dst.IP)
			if !ok {
				continue
			}
			bits, _ := r.Dst.Mask.Size()
			route := Route{To: netip.PrefixFrom(addr, bits)}
			if r.Type != unix.RTN_UNREACHABLE {
				route.Gateway, _ = netip.AddrFromSlice(r.Gw)
				route.Source, _ = netip.AddrFromSlice(r.Src)
				route.Tunnel = tunnel != 0 && r.LinkIndex == tunnel
			}
			if r.Table != unix.RT_TABLE_MAIN {
				route.Table = r.Table
			}
			out = append(out, route)
		}
	}
	return out, nil
}

func kernelRoute(r Route, tunnel int) *netlink.Route {
	k := &netlink.Route{
		Dst:      &net.IPNet{IP: r.To.Addr().AsSlice(), Mask: net.CIDRMask(r.To.Bits(), r.To.Addr().BitLen())},
		Protocol: protocol, Table: r.Table,
	}
	if r.Unreachable() {
		k.Type, k.Priority = unix.RTN_UNREACHABLE, unreachableMetric
		return k
	}
	k.Gw = r.Gateway.AsSlice()
	if r.Tunnel {
		k.LinkIndex, k.Flags = tunnel, int(netlink.FLAG_ONLINK)
	}
	if r.Source.IsValid() {
		k.Src = r.Source.AsSlice()
	}
	return k
}

func explain(r Route, err error) error {
	if (errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH)) && !r.Unreachable() && !r.Tunnel { // as IPv4 and IPv6 say it
		return fmt.Errorf("add route %s: the node's address is not on a network of this node (direct routes need nodes on one network; others are reached with --overlay=auto): %w", r, err)
	}
	return fmt.Errorf("add route %s: %w", r, err)
}

// EnableForwarding lets the node pass packets on between its pods and the network. A machine that forwards IPv6 hears no router's advertisements any more; the
// uplink, where it did, still does: its address and route may be from there. "" has no uplink.
func EnableForwarding(v6 bool, uplink string) error {
	const conf6 = "/proc/sys/net/ipv6/conf/"
	values := [][2]string{{"/proc/sys/net/ipv4/ip_forward", "1"}}
	if v6 {
		if uplink != "" {
			accept := conf6 + uplink + "/accept_ra"
			now, err := os.ReadFile(accept)
			if err != nil {
				return fmt.Errorf("IPv6 of the uplink: %w", err)
			}
			if strings.TrimSpace(string(now)) == "1" {
				values = append(values, [2]string{accept, "2"})
			}
		}
		values = append(values, [2]string{conf6 + "all/forwarding", "1"})
	}
	for _, v := range values {
		if err := os.WriteFile(v[0], []byte(v[1]), 0o644); err != nil {
			return fmt.Errorf("enable forwarding (is /proc/sys mounted read-only?): %w", err)
		}
	}
	return nil
}

// Uplink is the interface of the default route: how the node reaches the others.
type Uplink struct {
	Name      string
	MTU       int
	Addresses []netip.Addr
}

// FindUplink looks the uplink up. With several default routes the one with the best metric counts.
func FindUplink() (Uplink, error) {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := dump.Whole(func() ([]netlink.Route, error) { return netlink.RouteList(nil, family) })
		if err != nil {
			return Uplink{}, fmt.Errorf("list routes: %w", err)
		}
		best := -1
		for i, r := range routes {
			isDefault := r.Dst == nil || r.Dst.IP.IsUnspecified() && isZero(r.Dst.Mask)
			if isDefault && r.LinkIndex > 0 && (best < 0 || r.Priority < routes[best].Priority) {
				best = i
			}
		}
		if best >= 0 {
			return uplink(routes[best].LinkIndex)
		}
	}
	return Uplink{}, errors.New("find uplink: the node has no default route")
}

func isZero(m net.IPMask) bool {
	ones, _ := m.Size()
	return ones == 0
}

func uplink(index int) (Uplink, error) {
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return Uplink{}, fmt.Errorf("find uplink: %w", err)
	}
	list, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return Uplink{}, fmt.Errorf("list addresses of %s: %w", link.Attrs().Name, err)
	}
	up := Uplink{Name: link.Attrs().Name, MTU: link.Attrs().MTU}
	for _, a := range list {
		if addr, ok := netip.AddrFromSlice(a.IP); ok && !addr.Unmap().IsLinkLocalUnicast() {
			up.Addresses = append(up.Addresses, addr.Unmap())
		}
	}
	return up, nil
}

// LocalAddresses lists this machine's own addresses, without loopback's and link-local ones.
func LocalAddresses() ([]netip.Addr, error) {
	list, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var out []netip.Addr
	for _, a := range list {
		if addr, ok := netip.AddrFromSlice(a.IP); ok {
			if addr = addr.Unmap(); !addr.IsLoopback() && !addr.IsLinkLocalUnicast() {
				out = append(out, addr)
			}
		}
	}
	return out, nil
}

// localNetworks lists the networks that this machine is on: what is there it reaches by itself.
func localNetworks() ([]netip.Prefix, error) {
	list, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var out []netip.Prefix
	for _, a := range list {
		addr, ok := netip.AddrFromSlice(a.IP)
		bits, _ := a.Mask.Size()
		if p := netip.PrefixFrom(addr, bits); ok && !addr.IsLoopback() && !addr.IsLinkLocalUnicast() && !p.IsSingleIP() {
			out = append(out, p.Masked())
		}
	}
	return out, nil
}
