package announce

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/net/bpf"
)

// The frames are neighbour discovery for IPv6 (RFC 4861) over Ethernet.
const (
	etherIPv6      = 0x86dd
	protocolICMPv6 = 58
	solicitation   = 135
	advertisement  = 136
	headerSize     = 40
	messageSize    = 24  // without options
	ownHops        = 255 // no router has taken one off: the frame is of this network

	flagSolicited, flagOverride = 0x40, 0x20
	optionSource, optionTarget  = 1, 2 // the Ethernet address of the sender, and of the target
)

var (
	allNodes    = netip.MustParseAddr("ff02::1")
	allNodesMAC = net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}
)

// discoveryLanguage tells of IPv6's addresses.
func discoveryLanguage() language {
	return language{
		name: "NDP", protocol: etherIPv6, speaksOf: netip.Addr.Is6, group: solicitedNode, unasked: unsolicited,
		reply: func(frame []byte, mac net.HardwareAddr, ours func(netip.Addr) bool) ([]byte, bool) {
			question, ok := parseSolicitation(frame)
			if !ok {
				return nil, false
			}
			return advertise(question, mac, ours)
		},
		claim: func(frame []byte) (netip.Addr, net.HardwareAddr, bool) {
			n, ok := parseNeighbour(frame)
			return n.target, n.mac, ok && n.kind == advertisement
		},
		filter: []bpf.Instruction{
			bpf.LoadAbsolute{Off: etherStart + 6, Size: 1},
			bpf.JumpIf{Val: protocolICMPv6, SkipFalse: 4},
			bpf.LoadAbsolute{Off: etherStart + headerSize, Size: 1},
			bpf.JumpIf{Val: solicitation, SkipTrue: 1},
			bpf.JumpIf{Val: advertisement, SkipFalse: 1},
			bpf.RetConstant{Val: 1 << 16},
			bpf.RetConstant{Val: 0},
		},
	}
}

// solicitedNode is the group in which an address is asked for.
func solicitedNode(a netip.Addr) netip.Addr {
	b := a.As16()
	return netip.AddrFrom16([16]byte{0: 0xff, 1: 0x02, 11: 1, 12: 0xff, 13: b[13], 14: b[14], 15: b[15]})
}

// neighbour is a message: who has the target, asks the source of a solicitation, and that the target is at mac, says the one of an advertisement. A source without an
// address asks whether the target is in use.
type neighbour struct {
	kind                        byte
	mac                         net.HardwareAddr // as its option says or, where it has none, its frame
	source, destination, target netip.Addr
	named                       bool // by an option
}

// parseNeighbour reads a frame; false where it is no valid message of either kind (RFC 4861, 7.1.1 and 7.1.2).
func parseNeighbour(frame []byte) (neighbour, bool) {
	if len(frame) < etherStart+headerSize+messageSize || binary.BigEndian.Uint16(frame[12:]) != etherIPv6 {
		return neighbour{}, false
	}
	ip := frame[etherStart:]
	size := int(binary.BigEndian.Uint16(ip[4:]))
	if ip[0]>>4 != 6 || ip[6] != protocolICMPv6 || ip[7] != ownHops || size < messageSize || len(ip) < headerSize+size {
		return neighbour{}, false
	}
	message := ip[headerSize : headerSize+size]
	n := neighbour{
		kind: message[0], mac: net.HardwareAddr(frame[6:12]),
		source: netip.AddrFrom16([16]byte(ip[8:24])), destination: netip.AddrFrom16([16]byte(ip[24:40])), target: netip.AddrFrom16([16]byte(message[8:24])),
	}
	option, known := map[byte]byte{solicitation: optionSource, advertisement: optionTarget}[n.kind]
	if !known || message[1] != 0 || checksum(n.source, n.destination, message) != 0 || n.target.IsMulticast() {
		return neighbour{}, false
	}
	for options := message[messageSize:]; len(options) > 0; {
		if len(options) < 8 || options[1] == 0 || len(options) < 8*int(options[1]) {
			return neighbour{}, false
		}
		if options[0] == option && options[1] == 1 {
			n.mac, n.named = net.HardwareAddr(options[2:8]), true
		}
		options = options[8*int(options[1]):]
	}
	return n, true
}

// parseSolicitation reads a frame; false where it is no valid solicitation.
func parseSolicitation(frame []byte) (neighbour, bool) {
	n, ok := parseNeighbour(frame)
	if !ok || n.kind != solicitation || n.source.IsUnspecified() && (n.named || n.destination != solicitedNode(n.target)) {
		return neighbour{}, false
	}
	return n, true
}

// advertise is the reply to who asks for one of our addresses. Who has no address yet is told as everybody is.
func advertise(q neighbour, mac net.HardwareAddr, ours func(netip.Addr) bool) ([]byte, bool) {
	if !ours(q.target) || q.source == q.target {
		return nil, false
	}
	if q.source.IsUnspecified() {
		return advertised(q.target, allNodes, mac, allNodesMAC, flagOverride), true
	}
	return advertised(q.target, q.source, mac, q.mac, flagSolicited|flagOverride), true
}

// unsolicited is the frame that nobody asked for: everybody who knows the address learns that it is here now.
func unsolicited(address netip.Addr, mac net.HardwareAddr) [][]byte {
	return [][]byte{advertised(address, allNodes, mac, allNodesMAC, flagOverride)}
}

// advertised is the frame that says, in the target's own name, that it is at an address of Ethernet.
func advertised(target, to netip.Addr, mac, toMAC net.HardwareAddr, flags byte) []byte {
	message := append([]byte{advertisement, 0, 0, 0, flags, 0, 0, 0}, target.AsSlice()...)
	message = append(append(message, optionTarget, 1), mac...)
	return icmpFrame(target, to, mac, toMAC, message)
}

// icmpFrame puts a message of ICMPv6, whose checksum is still zero, into its packet and frame.
func icmpFrame(source, destination netip.Addr, from, to net.HardwareAddr, message []byte) []byte {
	binary.BigEndian.PutUint16(message[2:], checksum(source, destination, message))
	b := make([]byte, 0, etherStart+headerSize+len(message))
	b = append(append(b, to...), from...)
	b = binary.BigEndian.AppendUint16(b, etherIPv6)
	b = append(b, 6<<4, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(message)))
	b = append(append(b, protocolICMPv6, ownHops), source.AsSlice()...)
	return append(append(b, destination.AsSlice()...), message...)
}

// checksum adds a message up, with what of its packet's header counts; 0 where a right checksum is in it.
func checksum(source, destination netip.Addr, message []byte) uint16 {
	total := uint32(len(message)) + protocolICMPv6
	for _, part := range [][]byte{source.AsSlice(), destination.AsSlice(), message} {
		for i := 0; i+1 < len(part); i += 2 {
			total += uint32(binary.BigEndian.Uint16(part[i:]))
		}
		if len(part)%2 == 1 {
			total += uint32(part[len(part)-1]) << 8
		}
	}
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return ^uint16(total)
}
