// Package netpol enforces NetworkPolicies in eBPF, at the node's end of every pod's interface.
//
// NetworkPolicies, Namespaces, all Pods and the sandboxes of this node go in (Enforcer.Update, Enforcer.Delete,
// Enforcer.Isolate); compile turns the policies that select a pod into a Table for each direction, plan compares the tables with
// what the kernel has, and apply writes the difference in an order in which no packet meets rules that nobody made. The programs
// are in howdah.dev/nodeagent/bpf.
package netpol

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Direction is that of a packet as the pod sees it. The values are those of bpf/policy.h.
type Direction int

const (
	// Ingress is to the pod.
	Ingress Direction = 0
	// Egress is from the pod.
	Egress Direction = 1
)

var directions = [2]Direction{Ingress, Egress}

func (d Direction) String() string {
	if d == Ingress {
		return "ingress"
	}
	return "egress"
}

// maxRanges is how many different ranges of ports the rules for one pod in one direction may name.
const maxRanges = 256

// Bits is a set of ranges of ports: bit n stands for the n-th of a table's ranges.
type Bits [maxRanges / 64]uint64

func (b *Bits) set(n int)            { b[n/64] |= 1 << (n % 64) }
func (b Bits) has(n int) bool        { return b[n/64]>>(n%64)&1 == 1 }
func (b Bits) empty() bool           { return b == Bits{} }
func (b Bits) meets(other Bits) bool { return !b.and(other).empty() }

func (b Bits) and(other Bits) Bits {
	for i := range b {
		b[i] &= other[i]
	}
	return b
}

func (b Bits) or(other Bits) Bits {
	for i := range b {
		b[i] |= other[i]
	}
	return b
}

// Protocols that have ports, by their IP numbers; anyProtocol is all protocols, those without ports, too.
const (
	anyProtocol  = 0
	protocolTCP  = 6
	protocolUDP  = 17
	protocolSCTP = 132
)

var protocolNames = map[uint8]string{anyProtocol: "all", protocolTCP: "TCP", protocolUDP: "UDP", protocolSCTP: "SCTP"}

// Range is the ports First to Last of a protocol.
type Range struct {
	Protocol    uint8
	First, Last uint16
}

// everyPort is everything, whatever its protocol.
var everyPort = Range{anyProtocol, 0, 65535}

func (r Range) compare(other Range) int {
	return cmp.Or(cmp.Compare(r.Protocol, other.Protocol), cmp.Compare(r.First, other.First), cmp.Compare(r.Last, other.Last))
}

// covers says whether all of a prefix is in the range.
func (r Range) covers(p PortPrefix) bool {
	first, last := p.ends()
	return r.Protocol == anyProtocol || r.Protocol == p.Protocol && r.First <= first && last <= r.Last
}

// prefixes are the fewest prefixes that make up the range.
func (r Range) prefixes() []PortPrefix {
	if r.Protocol == anyProtocol {
		return []PortPrefix{{}}
	}
	var out []PortPrefix
	for from, end := uint32(r.First), uint32(r.Last)+1; from < end; {
		size, length := uint32(1), uint8(16)
		for length > 0 && from%(2*size) == 0 && from+2*size <= end {
			size, length = 2*size, length-1
		}
		out = append(out, PortPrefix{r.Protocol, uint16(from), length})
		from += size
	}
	return out
}

// PortPrefix is the ports of a protocol that begin with the first Length bits (0 to 16) of Port. Without a protocol it is everything.
type PortPrefix struct {
	Protocol uint8
	Port     uint16
	Length   uint8
}

func (p PortPrefix) ends() (first, last uint16) {
	return p.Port, p.Port | uint16(0xffff>>p.Length)
}

func (p PortPrefix) compare(other PortPrefix) int {
	return cmp.Or(cmp.Compare(p.Protocol, other.Protocol), cmp.Compare(p.Port, other.Port), cmp.Compare(p.Length, other.Length))
}

func (p PortPrefix) String() string {
	first, last := p.ends()
	switch {
	case p.Protocol == anyProtocol || p.Length == 0:
		return protocolNames[p.Protocol]
	case first == last:
		return fmt.Sprintf("%s %d", protocolNames[p.Protocol], first)
	}
	return fmt.Sprintf("%s %d-%d", protocolNames[p.Protocol], first, last)
}

// Table is what one direction's rules let pass, as the kernel looks it up: what the longest prefix of the far address and the longest
// prefix of the destination's port have in common. An empty one lets nothing pass.
type Table struct {
	// Peers tells which ranges of ports an address may use. The bits of a prefix are all that its addresses may, if none longer is theirs.
	Peers map[netip.Prefix]Bits
	// Ports tells which ranges a port is in, likewise.
	Ports map[PortPrefix]Bits
}

// allows answers as the programs do.
func (t Table) allows(far netip.Addr, protocol uint8, port uint16) bool {
	return t.peer(far).meets(t.port(protocol, port))
}

func (t Table) peer(a netip.Addr) Bits {
	for length := a.BitLen(); length >= 0; length-- {
		p, _ := a.Prefix(length)
		if bits, ok := t.Peers[p]; ok {
			return bits
		}
	}
	return Bits{}
}

func (t Table) port(protocol uint8, port uint16) Bits {
	for length := 16; length >= 0; length-- {
		key := PortPrefix{protocol, port &^ uint16(0xffff>>length), uint8(length)}
		if bits, ok := t.Ports[key]; ok && protocol != anyProtocol {
			return bits
		}
	}
	return t.Ports[PortPrefix{}]
}

// String dumps the table, an address a line, in order.
func (t Table) String() string {
	var out strings.Builder
	ports := sorted(t.Ports, PortPrefix.compare)
	for _, p := range sorted(t.Peers, netip.Prefix.Compare) {
		var may []string
		for _, port := range ports {
			if t.Peers[p].meets(t.Ports[port]) {
				may = append(may, port.String())
			}
		}
		if may == nil {
			may = []string{"nothing"}
		}
		fmt.Fprintf(&out, "  %s: %s\n", p, strings.Join(may, ", "))
	}
	return out.String()
}

func sorted[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}
