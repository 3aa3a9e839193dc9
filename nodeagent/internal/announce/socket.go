package announce

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// language is how the holder of an address of one family is asked for and told of, in Ethernet frames.
type language struct {
	name     string
	protocol uint16            // Ethernet's number
	filter   []bpf.Instruction // which of the protocol's frames are looked at; all of them where empty
	speaksOf func(netip.Addr) bool
	// group is who is asked for an address; nil where that is everybody.
	group func(netip.Addr) netip.Addr
	// reply is the answer to a frame that asks for one of our addresses.
	reply func(frame []byte, mac net.HardwareAddr, ours func(netip.Addr) bool) ([]byte, bool)
	// claim is who says in a frame that an address is his; false where nobody does.
	claim func(frame []byte) (address netip.Addr, holder net.HardwareAddr, ok bool)
	// unasked are the frames by which everybody learns where an address is now.
	unasked func(address netip.Addr, mac net.HardwareAddr) [][]byte
}

// wire is what is told over one family.
type wire struct {
	language
	socket *socket    // nil while there is none
	failed chan error // how listening to it ended
	after  time.Time  // when to try again
}

// close ends the socket, and waits until nobody listens to it any more.
func (w *wire) close() {
	if w.socket == nil {
		return
	}
	w.socket.Close()
	<-w.failed
	w.socket = nil
}

// socket is the interface's traffic in one language.
type socket struct {
	language
	*os.File
	link   *net.Interface
	mac    net.HardwareAddr
	groups map[netip.Addr]int // by the group, a socket that is in it
}

// open listens to the interface's frames of a language. It takes CAP_NET_RAW.
func open(name string, l language) (*socket, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	if len(link.HardwareAddr) != 6 {
		return nil, fmt.Errorf("interface %s has no Ethernet address", name)
	}
	// Nothing comes before the socket is bound to a protocol; then the filter is there.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	order := l.protocol<<8 | l.protocol>>8 // in the network's order
	err = attach(fd, l.filter)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: order, Ifindex: link.Index})
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listen to %s: %w", name, err)
	}
	return &socket{language: l, File: os.NewFile(uintptr(fd), l.name+":"+name), link: link, mac: link.HardwareAddr, groups: map[netip.Addr]int{}}, nil
}

// attach has the kernel pass only what the filter takes.
func attach(fd int, filter []bpf.Instruction) error {
	if len(filter) == 0 {
		return nil
	}
	raw, err := bpf.Assemble(filter)
	if err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	program := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		program[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
}

// hear has the machine be in the groups in which these addresses are asked for, and in no other: switches and network cards may pass on only what
// somebody is there for. It is called by one goroutine.
func (s *socket) hear(addresses []netip.Addr) error {
	if s.group == nil {
		return nil
	}
	wanted := make([]netip.Addr, len(addresses))
	for i, ip := range addresses {
		wanted[i] = s.group(ip)
	}
	for group := range s.groups {
		if !slices.Contains(wanted, group) {
			s.leave(group)
		}
	}
	for _, group := range wanted {
		if _, ok := s.groups[group]; ok {
			continue
		}
		// A socket each: one of them takes some hundred groups only.
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("join %s: %w", group, err)
		}
		if err := unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, &unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(s.link.Index)}); err != nil {
			return errors.Join(fmt.Errorf("join %s at %s (is IPv6 disabled there?): %w", group, s.link.Name, err), unix.Close(fd))
		}
		s.groups[group] = fd
	}
	return nil
}

func (s *socket) leave(group netip.Addr) {
	unix.Close(s.groups[group])
	delete(s.groups, group)
}

// Close ends reading, and leaves all groups.
func (s *socket) Close() error {
	for group := range s.groups {
		s.leave(group)
	}
	return s.File.Close()
}
