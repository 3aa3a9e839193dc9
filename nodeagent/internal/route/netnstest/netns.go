// Package netnstest gives tests network namespaces of their own, wired to each other, so that no address of a
// test ever exists outside it.
package netnstest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Namespace is one network namespace. It lives until the test ends.
type Namespace struct {
	t      testing.TB
	name   string
	handle netns.NsHandle
	path   string
}

// New makes a namespace with loopback up. It fails the test, rather than skip it, without the right to do so.
func New(t testing.TB, name string) *Namespace {
	t.Helper()
	n := &Namespace{t: t, name: name}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		h, err := netns.New()
		n.handle = h
		failed <- err
	}()
	if err := <-failed; err != nil {
		t.Fatalf("make network namespace (root is needed): %v", err)
	}
	n.path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(n.handle))
	t.Cleanup(func() { n.handle.Close() })
	n.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	// Nobody else has the addresses that links give themselves: without the second in which that is asked, they are used at once.
	n.Sysctl("ipv6/conf/default/dad_transmits", "0")
	return n
}

// Path names the namespace in the file system.
func (n *Namespace) Path() string { return n.path }

// Handle is the open namespace.
func (n *Namespace) Handle() netns.NsHandle { return n.handle }

// Try runs f on a thread in the namespace. Sockets that f opens belong to it for good.
func (n *Namespace) Try(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		if err := netns.Set(n.handle); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// Do is Try that must work.
func (n *Namespace) Do(f func() error) {
	n.t.Helper()
	if err := n.Try(f); err != nil {
		n.t.Fatalf("in namespace %s: %v", n.name, err)
	}
}

// Sysctl writes a value below /proc/sys/net, e.g. "ipv4/ip_forward".
func (n *Namespace) Sysctl(key, value string) {
	n.t.Helper()
	n.Do(func() error { return os.WriteFile(filepath.Join("/proc/sys/net", key), []byte(value), 0o644) })
}

// Address adds an address such as "192.0.2.1/24" to an interface and sets it up.
func (n *Namespace) Address(link, cidr string) {
	n.t.Helper()
	n.Do(func() error {
		l, err := netlink.LinkByName(link)
		if err != nil {
			return err
		}
		a, err := netlink.ParseAddr(cidr)
		if err != nil {
			return err
		}
		a.Flags |= 0x02 // IFA_F_NODAD: usable at once
		if err := netlink.AddrAdd(l, a); err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	})
}

// Route adds a route to cidr by a gateway, or, with an empty gateway, straight out of the link.
func (n *Namespace) Route(cidr, gateway, link string) {
	n.t.Helper()
	n.Do(func() error {
		_, dst, err := net.ParseCIDR(cidr)
		if err != nil {
			return err
		}
		r := &netlink.Route{Dst: dst, Gw: net.ParseIP(gateway)}
		if link != "" {
			l, err := netlink.LinkByName(link)
			if err != nil {
				return err
			}
			r.LinkIndex = l.Attrs().Index
			r.Scope = netlink.SCOPE_LINK
		}
		return netlink.RouteAdd(r)
	})
}

// Connect makes a veth pair between two namespaces, both ends up.
func Connect(a *Namespace, linkA string, b *Namespace, linkB string) {
	a.t.Helper()
	a.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = linkA
		attrs.Namespace = netlink.NsFd(int(a.handle))
		pair := &netlink.Veth{LinkAttrs: attrs, PeerName: linkB, PeerNamespace: netlink.NsFd(int(b.handle))}
		return netlink.LinkAdd(pair)
	})
	for ns, link := range map[*Namespace]string{a: linkA, b: linkB} {
		ns.Do(func() error {
			l, err := netlink.LinkByName(link)
			return errors.Join(err, netlink.LinkSetUp(l))
		})
	}
}

// Bridge makes a bridge in the namespace with these links as its ports: the wire between nodes.
func (n *Namespace) Bridge(name string, ports ...string) {
	n.t.Helper()
	n.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = name
		bridge := &netlink.Bridge{LinkAttrs: attrs}
		if err := netlink.LinkAdd(bridge); err != nil {
			return err
		}
		for _, p := range ports {
			l, err := netlink.LinkByName(p)
			if err != nil {
				return err
			}
			if err := netlink.LinkSetMaster(l, bridge); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(bridge)
	})
}
