package bpf

import (
	"encoding/binary"
	"net/netip"
)

// Address gives an address as the programs see it: 16 bytes in network order, IPv4 as ::ffff:a.b.c.d.
func Address(a netip.Addr) LBAddress {
	b := a.As16()
	var out LBAddress
	for i := range out.W {
		out.W[i] = binary.NativeEndian.Uint32(b[4*i:])
	}
	return out
}

// Addr is the inverse of Address; IPv4 comes back as IPv4.
func (a LBAddress) Addr() netip.Addr {
	var b [16]byte
	for i, w := range a.W {
		binary.NativeEndian.PutUint32(b[4*i:], w)
	}
	return netip.AddrFrom16(b).Unmap()
}

// Port turns a port around between the host's order and the network's.
func Port(p uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], p)
	return binary.NativeEndian.Uint16(b[:])
}
