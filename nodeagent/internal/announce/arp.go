package announce

import (
	"encoding/binary"
	"net"
	"net/netip"
)

// The frames are ARP for IPv4 over Ethernet (RFC 826).
const (
	frameSize  = 14 + 28
	etherARP   = 0x0806
	hardware   = 1
	protocol   = 0x0800
	opRequest  = 1
	opReply    = 2
	etherStart = 14
)

// arp is a message: who has the target, says the sender.
type arp struct {
	op                   uint16
	senderMAC, targetMAC net.HardwareAddr
	sender, target       netip.Addr
}

var broadcast = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// arpLanguage tells of IPv4's addresses.
func arpLanguage() language {
	return language{
		name: "ARP", protocol: etherARP, speaksOf: netip.Addr.Is4, unasked: gratuitous,
		reply: func(frame []byte, mac net.HardwareAddr, ours func(netip.Addr) bool) ([]byte, bool) {
			question, ok := parse(frame)
			if !ok {
				return nil, false
			}
			return answer(question, mac, ours)
		},
		claim: func(frame []byte) (netip.Addr, net.HardwareAddr, bool) {
			m, ok := parse(frame)
			return m.sender, m.senderMAC, ok
		},
	}
}

// parse reads a frame; false where it is no ARP message for IPv4.
func parse(frame []byte) (arp, bool) {
	if len(frame) < frameSize || binary.BigEndian.Uint16(frame[12:]) != etherARP {
		return arp{}, false
	}
	m := frame[etherStart:frameSize]
	if binary.BigEndian.Uint16(m) != hardware || binary.BigEndian.Uint16(m[2:]) != protocol || m[4] != 6 || m[5] != 4 {
		return arp{}, false
	}
	return arp{
		op: binary.BigEndian.Uint16(m[6:]), senderMAC: net.HardwareAddr(m[8:14]), sender: netip.AddrFrom4([4]byte(m[14:18])),
		targetMAC: net.HardwareAddr(m[18:24]), target: netip.AddrFrom4([4]byte(m[24:28])),
	}, true
}

// frame writes a message, from its sender to an address of Ethernet.
func (a arp) frame(to net.HardwareAddr) []byte {
	b := make([]byte, 0, frameSize)
	b = append(b, to...)
	b = append(b, a.senderMAC...)
	b = binary.BigEndian.AppendUint16(b, etherARP)
	b = binary.BigEndian.AppendUint16(b, hardware)
	b = binary.BigEndian.AppendUint16(b, protocol)
	b = append(b, 6, 4)
	b = binary.BigEndian.AppendUint16(b, a.op)
	b = append(b, a.senderMAC...)
	b = append(b, a.sender.AsSlice()...)
	b = append(b, a.targetMAC...)
	return append(b, a.target.AsSlice()...)
}

// answer is the reply to who asks for one of our addresses.
func answer(question arp, mac net.HardwareAddr, ours func(netip.Addr) bool) ([]byte, bool) {
	if question.op != opRequest || !ours(question.target) || question.sender == question.target {
		return nil, false
	}
	reply := arp{op: opReply, senderMAC: mac, sender: question.target, targetMAC: question.senderMAC, target: question.sender}
	return reply.frame(question.senderMAC), true
}

// gratuitous are the frames that nobody asked for, a request and a reply: everybody who knows the address learns that it is here now. Some
// systems hear the one, some the other.
func gratuitous(address netip.Addr, mac net.HardwareAddr) [][]byte {
	request := arp{op: opRequest, senderMAC: mac, sender: address, targetMAC: make(net.HardwareAddr, 6), target: address}
	reply := arp{op: opReply, senderMAC: mac, sender: address, targetMAC: broadcast, target: address}
	return [][]byte{request.frame(broadcast), reply.frame(broadcast)}
}
