package lb

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/bpf"
)

// Flags and roles, as in bpf/maps.h.
const (
	flagCheckSource = 1
	flagLocal       = 1
	roleOther       = 1
	roleSelf        = 2

	protocolTCP  = 6
	protocolUDP  = 17
	protocolSCTP = 132
)

// The protocols that are balanced, and their numbers.
var (
	protocolNumbers = map[corev1.Protocol]uint8{corev1.ProtocolTCP: protocolTCP, corev1.ProtocolUDP: protocolUDP, corev1.ProtocolSCTP: protocolSCTP}
	protocolNames   = map[uint8]corev1.Protocol{protocolTCP: corev1.ProtocolTCP, protocolUDP: corev1.ProtocolUDP, protocolSCTP: corev1.ProtocolSCTP}
)

// balanceable says whether a port's protocol is one that is balanced.
func balanceable(p corev1.Protocol) bool { return protocolNumbers[p] != 0 }

func encodeFrontend(f Frontend) bpf.LBFrontendKey {
	return bpf.LBFrontendKey{Address: bpf.Address(f.Address), Port: bpf.Port(f.Port), Protocol: protocolNumbers[f.Protocol], Scope: uint8(f.Scope)}
}

func decodeFrontend(k bpf.LBFrontendKey) Frontend {
	return Frontend{Address: k.Address.Addr(), Port: bpf.Port(k.Port), Protocol: protocolNames[k.Protocol], Scope: Scope(k.Scope)}
}

// encodeEntry leaves the set to the plan.
func encodeEntry(e Entry) bpf.LBFrontend {
	v := bpf.LBFrontend{
		Service:  identity(e.Service),
		Count:    uint32(len(e.Backends)),
		Affinity: uint32(e.Affinity / time.Second),
	}
	if len(e.Sources) > 0 {
		v.Flags |= flagCheckSource
	}
	return v
}

func encodeBackend(b Backend) bpf.LBBackend {
	v := bpf.LBBackend{Address: bpf.Address(b.Address.Addr()), Port: bpf.Port(b.Address.Port())}
	if b.Local {
		v.Flags |= flagLocal
	}
	return v
}

func encodeBackends(list []Backend) []bpf.LBBackend {
	out := make([]bpf.LBBackend, len(list))
	for i, b := range list {
		out[i] = encodeBackend(b)
	}
	return out
}

func encodeMember(set uint32, b bpf.LBBackend) bpf.LBMemberKey {
	return bpf.LBMemberKey{Set: set, Address: b.Address, Port: b.Port}
}

func encodeSource(service uint64, p netip.Prefix) bpf.LBSourceKey {
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	return bpf.LBSourceKey{
		PrefixLength: uint32(64 + bits),
		Service:      [2]uint32{uint32(service), uint32(service >> 32)},
		Address:      bpf.Address(p.Addr()),
	}
}

// identity is a service port's number: the same on every node and after every restart.
func identity(service string) uint64 {
	sum := sha256.Sum256([]byte(service))
	return binary.LittleEndian.Uint64(sum[:8])
}

// contents is a set's identity in the agent's memory: its backends, byte for byte.
func contents(backends []bpf.LBBackend) string {
	out := make([]byte, 0, 20*len(backends))
	for _, b := range backends {
		for _, w := range b.Address.W {
			out = binary.LittleEndian.AppendUint32(out, w)
		}
		out = binary.LittleEndian.AppendUint16(out, b.Port)
		out = binary.LittleEndian.AppendUint16(out, b.Flags)
	}
	return string(out)
}

func decodeBackend(b bpf.LBBackend) Backend {
	return Backend{Address: netip.AddrPortFrom(b.Address.Addr(), bpf.Port(b.Port)), Local: b.Flags&flagLocal != 0}
}
