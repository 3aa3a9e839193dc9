package netpol

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Verdicts of a program.
const (
	verdictNext = 0xffffffff
	verdictShot = 2
)

// What a pod sends passes if it comes from an address of its own, or belongs to the link between it and its node. The kernel's test runs have
// the namespace's loopback as the pod's interface.
func TestSources(t *testing.T) {
	n := newNode(t)
	n.ns.Sysctl("ipv4/conf/all/rp_filter", "0")
	for _, own := range []string{"10.77.0.1/32", "fd00:77::1/128"} {
		n.ns.Route(own, "", "lo")
	}
	n.pod(podObject("default", "neighbour", 2, nil))
	n.ns.Route("0.0.0.0/0", outsideAddress, "")
	n.ns.Route("::/0", outsideAddress6, "")
	n.ns.Do(func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: ipNet("10.77.0.0/16"), Type: unix.RTN_UNREACHABLE})
	})
	tests := []struct {
		what   string
		packet []byte
		passes bool
	}{
		{"the pod's address", udpPacket(netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("10.77.0.2"), 80), true},
		{"a neighbour's", udpPacket(netip.MustParseAddr("10.77.0.2"), netip.MustParseAddr("10.77.0.3"), 80), false},
		{"an address of the node's range that nobody has", udpPacket(netip.MustParseAddr("10.77.0.9"), netip.MustParseAddr("10.77.0.2"), 80), false},
		{"the node's address", udpPacket(netip.MustParseAddr(nodeAddress), netip.MustParseAddr("10.77.0.2"), 80), false},
		{"an address of another machine", udpPacket(netip.MustParseAddr(outsideAddress), netip.MustParseAddr("10.77.0.2"), 80), false},
		{"an address from anywhere", udpPacket(netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("10.77.0.2"), 80), false},
		{"the gateway's address", udpPacket(netip.MustParseAddr("169.254.1.1"), netip.MustParseAddr("10.77.0.2"), 80), false},
		{"an IPv4 link-local address, which would be forwarded", udpPacket(netip.MustParseAddr("169.254.7.7"), netip.MustParseAddr("10.77.0.2"), 80), false},
		{"loopback", udpPacket(netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.77.0.2"), 80), false},
		{"no IPv4 address", udpPacket(netip.IPv4Unspecified(), netip.MustParseAddr("255.255.255.255"), 67), false},

		{"the pod's IPv6 address", udp6Packet("fd00:77::1", "fd00:77::2"), true},
		{"a neighbour's IPv6 address", udp6Packet("fd00:77::2", "fd00:77::3"), false},
		{"the node's IPv6 address", udp6Packet(nodeAddress6, "fd00:77::2"), false},
		{"an IPv6 address of another machine", udp6Packet(outsideAddress6, "fd00:77::2"), false},
		{"an IPv6 address from anywhere", udp6Packet("2001:db8::9", "fd00:77::2"), false},
		{"IPv6 loopback", udp6Packet("::1", "fd00:77::2"), false},
		{"the pod's IPv4 address, as an IPv6 one", udp6Packet("::ffff:10.77.0.1", "fd00:77::2"), false},
		{"a link-local address to a multicast group (neighbour discovery)", udp6Packet("fe80::1234", "ff02::1:ff00:1"), true},
		{"a link-local address to one", udp6Packet("fe80::1234", "fe80::1"), true},
		{"no address to a solicited node (duplicate address detection)", udp6Packet("::", "ff02::1:ff00:1"), true},
		{"no address to the routers of the link (multicast reports)", udp6Packet("::", "ff02::16"), true},
		{"no address to a machine", udp6Packet("::", "fd00:77::2"), false},

		{"ARP by the pod", arpPacket("10.77.0.1"), true},
		{"ARP by nobody (whether an address is in use)", arpPacket("0.0.0.0"), true},
		{"ARP in a neighbour's name", arpPacket("10.77.0.2"), false},
		{"ARP for something else than IPv4", ethernet(unix.ETH_P_ARP, []byte{0, 1, 8, 6, 6, 16}), false},

		{"a VLAN tag under another one, which the kernel takes off after the check", ethernet(unix.ETH_P_8021Q, []byte{0, 0, 8, 0}), false},
		{"another protocol", ethernet(unix.ETH_P_PPP_SES, nil), false},
	}
	n.ns.Do(func() error {
		d, _, err := loadDatapath(Config{Pins: n.pins, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		defer d.close()
		dropped := 0.0
		for _, tt := range tests {
			want := uint32(verdictNext)
			if !tt.passes {
				want = verdictShot
				dropped++
			}
			verdict, err := d.objects.PolicyFromPod.Run(&ebpf.RunOptions{Data: tt.packet})
			if err != nil || verdict != want {
				t.Errorf("%s: verdict %d, error %v; want %d", tt.what, int32(verdict), err, int32(want))
			}
			if got := d.spoofed(); got != dropped {
				t.Errorf("%s: %v packets are counted, want %v", tt.what, got, dropped)
				dropped = got
			}
			// Nobody forges what others send to the pod: that was looked at where it came from.
			if verdict, err := d.objects.PolicyToPod.Run(&ebpf.RunOptions{Data: tt.packet}); err != nil || verdict != verdictNext {
				t.Errorf("%s, to the pod: verdict %d, error %v", tt.what, int32(verdict), err)
			}
		}
		return nil
	})
}

// A pod that may send what it likes cannot take the name of one that a policy lets in: not while an agent is there, not between two agents' lives, and not after.
func TestSpoofing(t *testing.T) {
	for _, tt := range []struct {
		name       string
		withoutTCX bool
	}{{"tcx", false}, {"tc", true}} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.config = func(c *Config) { c.WithoutTCX = tt.withoutTCX }
			n.ns.Sysctl("ipv4/conf/all/rp_filter", "0")
			web, client, stranger := webAndClients(n)
			heard := web.hear(t, 53)
			forge := func(word string) {
				t.Helper()
				stranger.forge(t, "10.77.0.3", "10.77.0.2", 53, word)
				stranger.forge(t, "fd00:77::3", "fd00:77::2", 53, word)
			}
			honest := func(word string) {
				t.Helper()
				client.forge(t, "10.77.0.3", "10.77.0.2", 53, word)
				client.forge(t, "fd00:77::3", "fd00:77::2", 53, word)
			}
			hear := func(word string) {
				t.Helper()
				for range 2 { // one a family
					select {
					case got := <-heard:
						if got != word {
							t.Fatalf("heard %q, want %q", got, word)
						}
					case <-time.After(time.Minute):
						t.Fatalf("%q does not come", word)
					}
				}
			}
			// Whoever has to ask for the gateway first asks in its own name, as the link-local address is not there from the first moment.
			stranger.forge(t, "10.77.0.4", "10.77.0.2", 53, "hello")
			stranger.forge(t, "fd00:77::4", "fd00:77::2", 53, "hello")
			hear("hello")
			forge("without a check")
			hear("without a check") // the test could tell

			let := policyObject(t, `{metadata: {name: let-in}, spec: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: client}}}], ports: [{port: 53, protocol: UDP}]}]}}`)
			n.start(namespaceObject("default", nil), let)
			forge("forged")
			n.spoofed(2)
			honest("in its own name")
			hear("in its own name")
			n.passes(stranger.Namespace, "tcp", nodeEcho(n), "who forges, to its node")

			n.stop()
			forge("forged without an agent")
			honest("in its own name without an agent")
			hear("in its own name without an agent")

			// The next agent does not hear of the pod any more: it was deleted meanwhile, and its sandbox is still there.
			n.pods = n.pods[:2]
			n.start(namespaceObject("default", nil), let)
			forge("forged by a pod that is gone")
			n.spoofed(6)
			n.remove(let)
			forge("forged without policies")
			n.spoofed(8)
			honest("in its own name without policies")
			hear("in its own name without policies")
		})
	}
}

// spoofed waits until so many packets were dropped for their source.
func (n *node) spoofed(want float64) {
	n.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for n.programs().spoofed() < want && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond) // the kernel counts, and tells nobody
	}
	if got := n.programs().spoofed(); got != want {
		n.t.Errorf("%v packets were dropped for their source, want %v", got, want)
	}
}

// nodeEcho is a server on the node.
func nodeEcho(n *node) string {
	n.ns.Echo(n.t, "tcp", ":8080", "node")
	return nodeAddress + ":8080"
}

// hear gives what comes to a UDP port, from whomever.
func (m *machine) hear(t *testing.T, port int) <-chan string {
	t.Helper()
	var c *net.UDPConn
	m.Do(func() (err error) {
		c, err = net.ListenUDP("udp", &net.UDPAddr{Port: port})
		return err
	})
	words := make(chan string, 64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(words)
		buf := make([]byte, 128)
		for {
			read, err := c.Read(buf)
			if err != nil {
				return
			}
			words <- string(buf[:read])
		}
	}()
	t.Cleanup(func() { c.Close(); <-done })
	return words
}

// forge sends a datagram from an address that needs not be the sender's, as NET_RAW allows.
func (m *machine) forge(t *testing.T, from, to string, port uint16, word string) {
	t.Helper()
	source, destination := netip.MustParseAddr(from), netip.MustParseAddr(to)
	datagram := make([]byte, 8, 8+len(word))
	binary.BigEndian.PutUint16(datagram, 40000)
	binary.BigEndian.PutUint16(datagram[2:], port)
	binary.BigEndian.PutUint16(datagram[4:], uint16(8+len(word)))
	datagram = append(datagram, word...)
	var packet []byte
	family, address := unix.AF_INET, unix.Sockaddr(nil)
	if source.Is4() {
		packet = make([]byte, 20)
		packet[0], packet[8], packet[9] = 0x45, 64, protocolUDP // the kernel fills in the length and the sum
		copy(packet[12:], source.AsSlice())
		copy(packet[16:], destination.AsSlice())
		address = &unix.SockaddrInet4{Addr: destination.As4()}
	} else {
		packet = ipv6Header(source, destination, len(datagram))
		binary.BigEndian.PutUint16(datagram[6:], udp6Sum(source, destination, datagram))
		family, address = unix.AF_INET6, &unix.SockaddrInet6{Addr: destination.As16()}
	}
	m.Do(func() error {
		fd, err := unix.Socket(family, unix.SOCK_RAW, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		return errors.Join(unix.Sendto(fd, append(packet, datagram...), 0, address), unix.Close(fd))
	})
}

func ipv6Header(source, destination netip.Addr, length int) []byte {
	b := make([]byte, 40)
	b[0], b[6], b[7] = 0x60, protocolUDP, 64
	binary.BigEndian.PutUint16(b[4:], uint16(length))
	a, z := source.As16(), destination.As16()
	copy(b[8:], a[:])
	copy(b[24:], z[:])
	return b
}

// udp6Sum is the checksum of a datagram over IPv6, which it has to have.
func udp6Sum(source, destination netip.Addr, datagram []byte) uint16 {
	a, z := source.As16(), destination.As16()
	all := append(append(append([]byte{}, a[:]...), z[:]...), 0, 0, 0, byte(len(datagram)), 0, 0, 0, protocolUDP)
	all = append(all, datagram...)
	if len(all)%2 == 1 {
		all = append(all, 0)
	}
	sum := uint32(0)
	for i := 0; i < len(all); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(all[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func udp6Packet(from, to string) []byte {
	datagram := make([]byte, 20)
	binary.BigEndian.PutUint16(datagram[2:], 80)
	binary.BigEndian.PutUint16(datagram[4:], uint16(len(datagram)))
	return ethernet(unix.ETH_P_IPV6, append(ipv6Header(netip.MustParseAddr(from), netip.MustParseAddr(to), len(datagram)), datagram...))
}

// arpPacket asks for an address in the name of a sender.
func arpPacket(sender string) []byte {
	b := make([]byte, 28)
	copy(b, []byte{0, 1, 8, 0, 6, 4, 0, 1})
	copy(b[14:], netip.MustParseAddr(sender).AsSlice())
	copy(b[24:], []byte{169, 254, 1, 1})
	return ethernet(unix.ETH_P_ARP, b)
}

// ethernet puts a frame around what it carries, of at least the length that the kernel's test runs ask for.
func ethernet(protocol uint16, payload []byte) []byte {
	b := make([]byte, max(64, 14+len(payload)))
	binary.BigEndian.PutUint16(b[12:], protocol)
	copy(b[14:], payload)
	return b
}

func ipNet(cidr string) *net.IPNet {
	_, n, err := net.ParseCIDR(cidr)
	if err != nil {
		panic(err)
	}
	return n
}
