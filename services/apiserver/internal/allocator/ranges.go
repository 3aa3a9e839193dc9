package allocator

import "net/netip"

// usable is the first address that a range gives out, and how many there are: the network's own address and, in IPv4, the
// broadcast one are nobody's. Of a large range the first 2^24 are used.
func usable(p netip.Prefix) (first netip.Addr, size int) {
	size = 1<<min(p.Addr().BitLen()-p.Bits(), 24) - 1
	if p.Addr().Is4() {
		size--
	}
	return p.Masked().Addr().Next(), max(size, 0)
}

// gives reports whether a range gives out an address, if somebody asks for it.
func gives(p netip.Prefix, ip netip.Addr) bool {
	first, size := usable(p)
	return size > 0 && p.Contains(ip) && !ip.Less(first) && (p.Addr().Is6() || !offset(first, size-1).Less(ip))
}

// band is the size of the lower part of a range that automatic picks leave alone.
func band(size, least, most int) int {
	if size < least {
		return 0
	}
	return min(max(least, size/16), most)
}

// offset returns the n-th address behind a.
func offset(a netip.Addr, n int) netip.Addr {
	b := a.AsSlice()
	for i := len(b) - 1; i >= 0 && n > 0; i-- {
		n += int(b[i])
		b[i] = byte(n)
		n >>= 8
	}
	next, _ := netip.AddrFromSlice(b)
	return next
}
