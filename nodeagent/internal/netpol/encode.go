package netpol

import (
	"net/netip"

	"howdah.dev/nodeagent/bpf"
)

// Bits before the address, or before the protocol, in a key.
const (
	setBits      = 32
	protocolBits = 16
	mappedBits   = 96
)

func encodeAddress(a netip.Addr) bpf.PolicyAddress {
	return bpf.PolicyAddress(bpf.Address(a))
}

func encodePeer(set uint32, p netip.Prefix) bpf.PolicyPeerKey {
	length := uint32(p.Bits())
	if p.Addr().Is4() {
		length += mappedBits
	}
	return bpf.PolicyPeerKey{PrefixLength: setBits + length, Set: set, Address: encodeAddress(p.Addr())}
}

func decodePeer(k bpf.PolicyPeerKey) netip.Prefix {
	a, length := bpf.LBAddress(k.Address).Addr(), int(k.PrefixLength)-setBits
	if a.Is4() && length >= mappedBits {
		return netip.PrefixFrom(a, length-mappedBits)
	}
	return netip.PrefixFrom(netip.AddrFrom16(a.As16()), length)
}

func encodePort(set uint32, p PortPrefix) bpf.PolicyPortKey {
	k := bpf.PolicyPortKey{PrefixLength: setBits, Set: set}
	if p.Protocol != anyProtocol {
		k.PrefixLength += protocolBits + uint32(p.Length)
		k.Protocol, k.Port = p.Protocol, bpf.Port(p.Port)
	}
	return k
}

func decodePort(k bpf.PolicyPortKey) PortPrefix {
	if k.PrefixLength == setBits {
		return PortPrefix{}
	}
	return PortPrefix{k.Protocol, bpf.Port(k.Port), uint8(k.PrefixLength - setBits - protocolBits)}
}

func encodeBits(b Bits) bpf.PolicyBits { return bpf.PolicyBits{W: b} }
