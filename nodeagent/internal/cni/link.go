package cni

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// The pods' gateways: the host's end of the veth answers for them, by a fixed neighbour entry. They are the same for
// every pod and exist on no wire.
var (
	gateway4 = netip.MustParseAddr("169.254.1.1")
	gateway6 = netip.MustParseAddr("fe80::1")
)

// pair is a finished veth pair.
type pair struct {
	host, pod *netlink.LinkAttrs
}

// hostLink names the host's end; the same attachment always gets the same name.
func hostLink(a attachment) string {
	sum := sha256.Sum256([]byte(a.Container + "/" + a.Interface))
	return "how" + hex.EncodeToString(sum[:6])
}

// HostLink names the node's end of a sandbox's interface.
func HostLink(sandbox string) string {
	return hostLink(attachment{Container: sandbox, Interface: "eth0"})
}

// connect makes the pair and all routes. A leftover of an earlier try is replaced.
func connect(ns netns.NsHandle, a attachment, addresses []netip.Addr, mtu int) (*pair, error) {
	if err := disconnect(a); err != nil {
		return nil, err
	}
	if err := enableIPv6(ns, addresses); err != nil {
		return nil, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = hostLink(a), mtu
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: a.Interface, PeerNamespace: netlink.NsFd(int(ns))}); err != nil {
		return nil, fmt.Errorf("add veth pair %s: %w", attrs.Name, err)
	}
	pod, err := netlink.NewHandleAt(ns)
	if err != nil {
		return nil, fmt.Errorf("enter the pod's network namespace: %w", err)
	}
	defer pod.Close()
	host, err := netlink.LinkByName(attrs.Name)
	if err != nil {
		return nil, fmt.Errorf("find host link: %w", err)
	}
	inside, err := pod.LinkByName(a.Interface)
	if err != nil {
		return nil, fmt.Errorf("find pod link: %w", err)
	}
	if err := up(pod, "lo"); err != nil {
		return nil, err
	}
	if err := errors.Join(pod.LinkSetMTU(inside, mtu), pod.LinkSetUp(inside), netlink.LinkSetUp(host)); err != nil {
		return nil, fmt.Errorf("set links up: %w", err)
	}
	for _, addr := range addresses {
		if err := routeTo(pod, inside, host, addr); err != nil {
			return nil, err
		}
	}
	return &pair{host: host.Attrs(), pod: inside.Attrs()}, nil
}

// routeTo gives the pod its address and the two ends their ways to each other. Neighbours are fixed: no ARP, nothing to
// wait for or to spoof.
func routeTo(pod *netlink.Handle, inside, host netlink.Link, addr netip.Addr) error {
	family, gateway, all := netlink.FAMILY_V4, gateway4, "0.0.0.0/0"
	if addr.Is6() {
		family, gateway, all = netlink.FAMILY_V6, gateway6, "::/0"
	}
	_, everything, err := net.ParseCIDR(all)
	if err != nil {
		return err
	}
	if err := pod.AddrReplace(inside, &netlink.Addr{IPNet: single(addr), Flags: unix.IFA_F_NODAD}); err != nil {
		return fmt.Errorf("set pod address %s: %w", addr, err)
	}
	if err := pod.NeighSet(neighbour(inside, family, gateway, host.Attrs().HardwareAddr)); err != nil {
		return fmt.Errorf("set the gateway's neighbour entry: %w", err)
	}
	for _, r := range []*netlink.Route{
		{LinkIndex: inside.Attrs().Index, Dst: single(gateway), Scope: netlink.SCOPE_LINK},
		{LinkIndex: inside.Attrs().Index, Dst: everything, Gw: gateway.AsSlice()},
	} {
		if err := pod.RouteReplace(r); err != nil {
			return fmt.Errorf("add pod route to %s: %w", r.Dst, err)
		}
	}
	if err := netlink.NeighSet(neighbour(host, family, addr, inside.Attrs().HardwareAddr)); err != nil {
		return fmt.Errorf("set the pod's neighbour entry: %w", err)
	}
	if err := netlink.RouteReplace(&netlink.Route{LinkIndex: host.Attrs().Index, Dst: single(addr), Scope: netlink.SCOPE_LINK}); err != nil {
		return fmt.Errorf("add host route to %s: %w", addr, err)
	}
	return nil
}

// disconnect removes the pair; it is gone with either end, so a missing one is no error.
func disconnect(a attachment) error {
	link, err := netlink.LinkByName(hostLink(a))
	if notFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find host link: %w", err)
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove veth pair: %w", err)
	}
	return nil
}

func up(h *netlink.Handle, name string) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

// enableIPv6 undoes what runtimes do to namespaces that they take for IPv4 only.
func enableIPv6(ns netns.NsHandle, addresses []netip.Addr) error {
	wanted := false
	for _, a := range addresses {
		wanted = wanted || a.Is6()
	}
	if !wanted {
		return nil
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread is in another namespace now
		if err := netns.Set(ns); err != nil {
			done <- fmt.Errorf("enter the pod's network namespace: %w", err)
			return
		}
		for _, which := range []string{"all", "default"} {
			if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+which+"/disable_ipv6", []byte("0"), 0o644); err != nil {
				done <- fmt.Errorf("enable IPv6 in the pod: %w", err)
				return
			}
		}
		done <- nil
	}()
	return <-done
}

func neighbour(link netlink.Link, family int, addr netip.Addr, mac net.HardwareAddr) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: link.Attrs().Index, Family: family, State: netlink.NUD_PERMANENT, IP: addr.AsSlice(), HardwareAddr: mac}
}

func single(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

func notFound(err error) bool {
	var missing netlink.LinkNotFoundError
	return errors.As(err, &missing)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
