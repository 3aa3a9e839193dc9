package lb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"howdah.dev/nodeagent/internal/route/netnstest"
)

// Numbers of IPv6's headers.
const (
	hopOptions  = 0
	routing     = 43
	fragment    = 44
	destOptions = 60
)

// passedOn is TC_ACT_UNSPEC: the kernel goes on with the packet.
const passedOn = ^uint32(0)

// extension is an extension header of eight bytes; what it says is padding, or, for another kind, nothing that matters here.
type extension struct {
	kind   byte
	second byte // where a fragment has nothing, and the others their length
	rest   [6]byte
}

var padding = [6]byte{1, 4} // an option of four bytes that means nothing

// datagram6 is a frame with a UDP datagram, its headers and a right checksum.
func datagram6(source, destination netip.AddrPort, extensions []extension, data string) []byte {
	udp := binary.BigEndian.AppendUint16(nil, source.Port())
	udp = binary.BigEndian.AppendUint16(udp, destination.Port())
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(data)))
	udp = append(append(udp, 0, 0), data...)
	binary.BigEndian.PutUint16(udp[6:], ^sum6(source.Addr(), destination.Addr(), udp))
	next, payload := byte(protocolUDP), udp
	for _, x := range slices.Backward(extensions) {
		payload = append(append([]byte{next, x.second}, x.rest[:]...), payload...)
		next = x.kind
	}
	frame := append(make([]byte, 12), 0x86, 0xdd, 0x60, 0, 0, 0)
	frame = binary.BigEndian.AppendUint16(frame, uint16(len(payload)))
	frame = append(append(append(frame, next, 64), source.Addr().AsSlice()...), destination.Addr().AsSlice()...)
	return append(frame, payload...)
}

// sum6 adds up a datagram and what its checksum has of the IPv6 header; all ones where a right checksum is in it.
func sum6(source, destination netip.Addr, udp []byte) uint16 {
	all := slices.Concat(source.AsSlice(), destination.AsSlice(), []byte{0, 0, 0, protocolUDP}, udp)
	if len(all)%2 == 1 {
		all = append(all, 0)
	}
	sum := uint32(len(udp))
	for i := 0; i < len(all); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(all[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// Which packets of IPv6 are translated, and which are left as they are.
func TestHeadersOfIPv6(t *testing.T) {
	c := newCluster(t, true)
	n := startCluster(t, c, nodePort("web", c.at("10.96.0.10"), 30080, 30053), endpointSlice("web", 8080, c.at("10.77.1.2")))
	client, service := netip.MustParseAddrPort(c.at("192.0.2.13:4444")), netip.MustParseAddrPort(c.at("192.0.2.11:30053"))
	hop, dest := extension{kind: hopOptions, rest: padding}, extension{kind: destOptions, rest: padding}
	for _, tt := range []struct {
		name       string
		frame      []byte
		translated bool
	}{
		{"plain", datagram6(client, service, nil, "hello"), true},
		{"options for every hop", datagram6(client, service, []extension{hop}, "hello"), true},
		{"options for both", datagram6(client, service, []extension{hop, dest}, "hello"), true},
		{"four headers", datagram6(client, service, []extension{hop, dest, dest, dest}, "hello"), true},
		{"five headers", datagram6(client, service, []extension{hop, dest, dest, dest, dest}, "hello"), false},
		{"a routing header", datagram6(client, service, []extension{{kind: routing}}, "hello"), false},
		{"the first fragment", datagram6(client, service, []extension{{kind: fragment, rest: [6]byte{0, 1}}}, "hello"), false},
		{"the last fragment", datagram6(client, service, []extension{{kind: fragment, rest: [6]byte{0, 8}}}, "hello"), false},
		{"options before a fragment", datagram6(client, service, []extension{dest, {kind: fragment, rest: [6]byte{0, 1}}}, "hello"), false},
		{"a header that is not all there", datagram6(client, service, []extension{{kind: hopOptions, second: 200}}, "hello"), false},
		{"cut off", datagram6(client, service, nil, "")[:60], false},
		{"another port", datagram6(client, netip.AddrPortFrom(service.Addr(), 9), nil, "hello"), false},
		{"IPv4's address in IPv6", datagram6(netip.AddrPortFrom(netip.MustParseAddr("::ffff:192.0.2.13"), 4444), service, nil, "hello"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var verdict uint32
			var out []byte
			n.ns.Do(func() error {
				d, _, err := loadDatapath(n.at)
				if err != nil {
					return err
				}
				defer d.close()
				out = make([]byte, len(tt.frame)+64)
				verdict, err = d.objects.LbIngress.Run(&ebpf.RunOptions{Data: tt.frame, DataOut: out})
				out = out[:len(tt.frame)]
				return err
			})
			if verdict != passedOn {
				t.Errorf("verdict %d", verdict)
			}
			if !tt.translated {
				if !bytes.Equal(out, tt.frame) {
					t.Errorf("became %x, was %x", out, tt.frame)
				}
				return
			}
			udp := out[len(out)-8-len("hello"):]
			to := netip.AddrPortFrom(netip.AddrFrom16([16]byte(out[38:54])), binary.BigEndian.Uint16(udp[2:]))
			if want := c.at("10.77.1.2:8080"); to.String() != want || string(udp[8:]) != "hello" {
				t.Errorf("goes to %s with %q, want %s", to, udp[8:], want)
			}
			if sum := sum6(client.Addr(), to.Addr(), udp); sum != 0xffff {
				t.Errorf("checksum %x", sum)
			}
		})
	}
}

// A client's options come to the backend and its answers back, whether the backend is here or elsewhere. What a client sends in fragments is
// refused with an ICMP error by the node.
func TestOptionsAndFragmentsOverIPv6(t *testing.T) {
	c := newCluster(t, true)
	startCluster(t, c, nodePort("web", c.at("10.96.0.10"), 30080, 30053), c.spread("web"))
	got := map[string]int{}
	for range 10 {
		var conn net.Conn
		c.outside.Do(func() (err error) {
			d := net.Dialer{Timeout: patience, Control: func(_, _ string, raw syscall.RawConn) (err error) {
				options := string(append([]byte{0, 0}, padding[:]...))
				if e := raw.Control(func(fd uintptr) { err = unix.SetsockoptString(int(fd), unix.IPPROTO_IPV6, unix.IPV6_DSTOPTS, options) }); e != nil {
					return e
				}
				return err
			}}
			conn, err = d.Dial("udp", c.at("192.0.2.11:30053"))
			return err
		})
		name, err := netnstest.Talk(conn, patience)
		if err != nil {
			t.Fatal(err)
		}
		got[name]++
		conn.Close()
	}
	if !maps.Equal(got, map[string]int{"local": 5, "remote": 5}) {
		t.Errorf("answers %v", got)
	}
	conn, err := c.outside.Dial("udp", c.at("192.0.2.11:30053"), patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write(make([]byte, 4000)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("fragments: %v, want connection refused", err)
	}
}
