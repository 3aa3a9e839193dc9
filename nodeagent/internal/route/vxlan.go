package route

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"howdah.dev/nodeagent/internal/dump"
)

const (
	// TunnelLink is the interface of the tunnel.
	TunnelLink = "vxlan-howdah"
	// TunnelPort is where nodes take packets of the tunnel (UDP), and tunnelID the number of its network.
	TunnelPort = 4789
	tunnelID   = 201
	// podsRule is the priority of the rules that lead to podsTable: before the main table's.
	podsRule = 201
)

// EnsureTunnel makes the node's end, where it is not there as it should be. An end that was made with other settings is made anew, and has another number.
// It may be called twice at a time.
func EnsureTunnel(node string, local netip.Addr, mtu int) error {
	want := &netlink.Vxlan{
		LinkAttrs: netlink.NewLinkAttrs(), VxlanId: tunnelID, SrcAddr: local.AsSlice(), Port: TunnelPort, Learning: false, NoAge: true,
	}
	want.Name, want.HardwareAddr, want.MTU = TunnelLink, tunnelMAC(node), mtu
	link, err := netlink.LinkByName(TunnelLink)
	if err == nil {
		have, ok := link.(*netlink.Vxlan)
		if ok && have.VxlanId == tunnelID && have.Port == TunnelPort && !have.Learning && have.SrcAddr.Equal(want.SrcAddr) && have.HardwareAddr.String() == want.HardwareAddr.String() {
			return readyTunnel(have, mtu)
		}
		if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("remove the old tunnel: %w", err)
		}
	} else if missing := (netlink.LinkNotFoundError{}); !errors.As(err, &missing) {
		return fmt.Errorf("find the tunnel: %w", err)
	}
	if err := netlink.LinkAdd(want); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add the tunnel %s (the kernel needs CONFIG_VXLAN, and UDP port %d must be free): %w", TunnelLink, TunnelPort, err)
	}
	if link, err = netlink.LinkByName(TunnelLink); err != nil {
		return fmt.Errorf("find the tunnel: %w", err)
	}
	return readyTunnel(link, mtu)
}

func readyTunnel(link netlink.Link, mtu int) error {
	if link.Attrs().MTU != mtu {
		if err := netlink.LinkSetMTU(link, mtu); err != nil {
			return fmt.Errorf("set the tunnel's MTU: %w", err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set the tunnel up: %w", err)
	}
	return nil
}

// RemoveTunnel takes the node's end away, and the rules that lead to it. There may be none.
func RemoveTunnel() error {
	errs := []error{reconcileRules(nil)}
	link, err := netlink.LinkByName(TunnelLink)
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if missing := (netlink.LinkNotFoundError{}); err != nil && !errors.As(err, &missing) {
		errs = append(errs, fmt.Errorf("remove the tunnel: %w", err))
	}
	return errors.Join(errs...)
}

// tunnelIndex is the number of the tunnel's interface; 0 where there is none.
func tunnelIndex() (int, error) {
	link, err := netlink.LinkByName(TunnelLink)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("find the tunnel: %w", err)
	}
	return link.Attrs().Index, nil
}

// neighbours are the entries that the tunnel's interface has for its peers: where packets for an Ethernet address are sent to, and which Ethernet address a
// gateway has. Nothing is learnt or asked for.
func neighbours(peers []Peer, link int) ([]netlink.Neigh, error) {
	var all []netlink.Neigh
	for _, p := range peers {
		mac, err := net.ParseMAC(p.MAC)
		if err != nil {
			return nil, err
		}
		all = append(all, netlink.Neigh{LinkIndex: link, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF, State: netlink.NUD_PERMANENT, IP: p.Between.AsSlice(), HardwareAddr: mac})
		for _, g := range p.Gateways {
			all = append(all, netlink.Neigh{LinkIndex: link, Family: familyNumber(g), State: netlink.NUD_PERMANENT, IP: g.AsSlice(), HardwareAddr: mac})
		}
	}
	return all, nil
}

// ReconcilePeers makes the tunnel's entries be those of the peers, and has what comes from this node's pods take the routes for pods.
func ReconcilePeers(peers []Peer, own []netip.Prefix) error {
	link, err := tunnelIndex()
	if err != nil {
		return err
	}
	if link == 0 {
		return fmt.Errorf("there is no interface %s", TunnelLink)
	}
	want, err := neighbours(peers, link)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range want {
		if err := netlink.NeighSet(&n); err != nil {
			errs = append(errs, fmt.Errorf("set the tunnel's entry of %s: %w", n.IP, err))
		}
	}
	for _, family := range []int{unix.AF_BRIDGE, netlink.FAMILY_V4, netlink.FAMILY_V6} {
		have, err := dump.Whole(func() ([]netlink.Neigh, error) { return netlink.NeighList(link, family) })
		if err != nil {
			errs = append(errs, fmt.Errorf("list the tunnel's entries: %w", err))
			continue
		}
		for _, n := range have {
			same := func(w netlink.Neigh) bool {
				return w.Family == family && w.IP.Equal(n.IP) && w.HardwareAddr.String() == n.HardwareAddr.String()
			}
			if n.State&netlink.NUD_PERMANENT == 0 || len(n.HardwareAddr) == 0 || slices.ContainsFunc(want, same) {
				continue
			}
			n.Family = family
			if err := netlink.NeighDel(&n); err != nil && !errors.Is(err, unix.ENOENT) {
				errs = append(errs, fmt.Errorf("remove the tunnel's entry of %s: %w", n.IP, err))
			}
		}
	}
	return errors.Join(append(errs, reconcileRules(own))...)
}

// reconcileRules has packets from these prefixes asked about in podsTable first.
func reconcileRules(own []netip.Prefix) error {
	var errs []error
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		have, err := dump.Whole(func() ([]netlink.Rule, error) {
			return netlink.RuleListFiltered(family, &netlink.Rule{Table: podsTable}, netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("list rules: %w", err))
			continue
		}
		var there []netip.Prefix
		for _, r := range have {
			var from netip.Prefix
			if r.Src != nil {
				a, _ := netip.AddrFromSlice(r.Src.IP)
				bits, _ := r.Src.Mask.Size()
				from = netip.PrefixFrom(a, bits)
			}
			if slices.Contains(own, from) && !slices.Contains(there, from) {
				there = append(there, from)
				continue
			}
			r.Family = family
			if err := netlink.RuleDel(&r); err != nil && !errors.Is(err, unix.ENOENT) {
				errs = append(errs, fmt.Errorf("remove the rule for %s: %w", from, err))
			}
		}
		for _, p := range own {
			if familyNumber(p.Addr()) != family || slices.Contains(there, p) {
				continue
			}
			r := netlink.NewRule()
			r.Family, r.Table, r.Priority = family, podsTable, podsRule
			r.Src = &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
			if err := netlink.RuleAdd(r); err != nil {
				errs = append(errs, fmt.Errorf("add the rule for %s (the kernel needs CONFIG_IP_MULTIPLE_TABLES and CONFIG_IPV6_MULTIPLE_TABLES): %w", p, err))
			}
		}
	}
	return errors.Join(errs...)
}

func familyNumber(a netip.Addr) int {
	if a.Is4() {
		return netlink.FAMILY_V4
	}
	return netlink.FAMILY_V6
}
