package netpol

import (
	"net/netip"
	"slices"
)

// compile makes the table of the rules of all policies that isolate a pod in one direction. self are the pod's own ports, which the names in
// rules of ingress mean; in rules of egress they mean those of the pod that is dialled. members gives the pods of a selection. ranges is how
// many ranges of ports the rules name: with more than maxRanges the table is empty, which lets nothing pass.
func compile(d Direction, rules []rule, self []namedPort, members func(*selection) []*pod) (t Table, ranges int) {
	b := &builder{index: map[Range]int{}, pods: map[netip.Addr]Bits{}}
	for i := range rules {
		b.add(d, &rules[i], self, members)
	}
	if len(b.ranges) > maxRanges {
		return Table{}, len(b.ranges)
	}
	return b.table(), len(b.ranges)
}

// selections are those that the rules' tables depend on.
func selections(d Direction, rules []rule) []*selection {
	var out []*selection
	for i := range rules {
		r := &rules[i]
		out = append(out, r.pods...)
		if d == Egress && r.hasNames() && (r.everybody || len(r.blocks) > 0) {
			out = append(out, everyPodSelection)
		}
	}
	return out
}

func (r *rule) hasNames() bool {
	return slices.ContainsFunc(r.ports, func(p port) bool { return p.name != "" })
}

// builder collects who may use which ranges. Ranges get their final numbers at the end.
type builder struct {
	index  map[Range]int
	ranges []Range
	pods   map[netip.Addr]Bits
	blocks []grant
}

type grant struct {
	block
	bits Bits
}

func (b *builder) bits(ranges ...Range) Bits {
	var out Bits
	for _, r := range ranges {
		n, ok := b.index[r]
		if !ok {
			n = len(b.ranges)
			b.index[r], b.ranges = n, append(b.ranges, r)
		}
		if n < maxRanges {
			out.set(n)
		}
	}
	return out
}

func (b *builder) add(d Direction, r *rule, self []namedPort, members func(*selection) []*pod) {
	var fixed []Range // for whoever it is
	var names []port  // to be looked up in the pod that is dialled
	for _, p := range r.ports {
		switch {
		case p.name == "":
			fixed = append(fixed, p.Range)
		case d == Ingress:
			fixed = append(fixed, named(self, p.name, p.Protocol)...)
		default:
			names = append(names, p)
		}
	}
	if len(r.ports) == 0 {
		fixed = []Range{everyPort}
	}
	bits := b.bits(fixed...)
	of := func(p *pod) Bits {
		out := bits
		for _, n := range names {
			out = out.or(b.bits(named(p.ports, n.name, n.Protocol)...))
		}
		return out
	}
	for _, s := range r.pods {
		for _, p := range members(s) {
			for _, a := range p.addresses {
				b.grantTo(a, of(p))
			}
		}
	}
	blocks := r.blocks
	if r.everybody {
		blocks = everywhere
	}
	for _, block := range blocks {
		if !bits.empty() {
			b.blocks = append(b.blocks, grant{block, bits})
		}
		if names == nil {
			continue
		}
		for _, p := range members(everyPodSelection) {
			for _, a := range p.addresses {
				if block.covers(single(a)) {
					b.grantTo(a, of(p))
				}
			}
		}
	}
}

var everywhere = []block{{cidr: netip.MustParsePrefix("0.0.0.0/0")}, {cidr: netip.MustParsePrefix("::/0")}}

func (b *builder) grantTo(a netip.Addr, bits Bits) {
	if !bits.empty() {
		b.pods[a] = b.pods[a].or(bits)
	}
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// table numbers the ranges in their order, so that equal rules make equal tables, and gives every prefix all that holds for it.
func (b *builder) table() Table {
	order := slices.Clone(b.ranges)
	slices.SortFunc(order, Range.compare)
	number := make([]int, len(b.ranges))
	for n, r := range order {
		number[b.index[r]] = n
	}
	final := func(bits Bits) Bits {
		var out Bits
		for old, n := range number {
			if bits.has(old) {
				out.set(n)
			}
		}
		return out
	}
	t := Table{Peers: map[netip.Prefix]Bits{}, Ports: map[PortPrefix]Bits{}}
	for _, r := range order {
		for _, p := range r.prefixes() {
			t.Ports[p] = Bits{}
		}
	}
	for p := range t.Ports {
		var bits Bits
		for n, r := range order {
			if r.covers(p) {
				bits.set(n)
			}
		}
		t.Ports[p] = bits
	}
	ipv4 := everywhere[0].cidr
	for _, g := range b.blocks {
		for _, p := range append([]netip.Prefix{g.cidr}, g.except...) {
			t.Peers[p] = Bits{}
			if within(p, mappedIPv4) { // in the kernel's trie, IPv4 is below it; what is said of IPv6 is not said of that
				t.Peers[ipv4] = Bits{}
			}
		}
	}
	for a := range b.pods {
		t.Peers[single(a)] = Bits{}
	}
	for p := range t.Peers {
		var bits Bits
		if p.IsSingleIP() {
			bits = b.pods[p.Addr()]
		}
		for _, g := range b.blocks {
			if g.covers(p) {
				bits = bits.or(g.bits)
			}
		}
		t.Peers[p] = final(bits)
	}
	return t
}

var mappedIPv4 = netip.MustParsePrefix("::ffff:0:0/96")
