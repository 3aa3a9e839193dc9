// Package nodeipam gives every node its own range of pod addresses.
package nodeipam

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// errExhausted says that every range is taken.
var errExhausted = errors.New("CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range")

// ranges hands out ranges of one size from a cluster's range, each to one
// node at a time. It is not safe for concurrent use.
type ranges struct {
	cluster netip.Prefix
	bits    int // prefix length of a node's range
	owner   map[netip.Prefix]string
	next    uint64 // where the search goes on, so that freed ranges rest a while
	count   uint64
	usage   *usage
}

func newRanges(cluster netip.Prefix, bits int) (*ranges, error) {
	size := bits - cluster.Bits()
	if size < 0 || size > 24 || bits > cluster.Addr().BitLen() {
		return nil, fmt.Errorf("a node's range of /%d does not fit the cluster's range %s", bits, cluster)
	}
	return &ranges{cluster: cluster.Masked(), bits: bits, owner: map[netip.Prefix]string{}, count: 1 << size}, nil
}

// occupy notes that a node has a range. It fails where another node has it,
// or one that overlaps, and where the range is not the cluster's.
func (r *ranges) occupy(p netip.Prefix, node string) error {
	if !r.cluster.Overlaps(p) || p.Bits() < r.cluster.Bits() {
		return fmt.Errorf("range %s is outside the cluster's range %s", p, r.cluster)
	}
	for _, cell := range r.cells(p) {
		if o, ok := r.owner[cell]; ok && o != node {
			return fmt.Errorf("range %s of node %s overlaps one of node %s", p, node, o)
		}
	}
	had := len(r.owner)
	for _, cell := range r.cells(p) {
		r.owner[cell] = node
	}
	r.usage.changed(len(r.owner)-had, 0, len(r.owner), r.count)
	return nil
}

// cells are the ranges of the usual size that p touches: an operator may have
// given a node a larger or a smaller one.
func (r *ranges) cells(p netip.Prefix) []netip.Prefix {
	if p.Bits() >= r.bits {
		return []netip.Prefix{netip.PrefixFrom(p.Addr(), r.bits).Masked()}
	}
	first := r.index(p.Masked().Addr())
	cells := make([]netip.Prefix, 0, 1<<(r.bits-p.Bits()))
	for i := range uint64(1) << (r.bits - p.Bits()) {
		cells = append(cells, r.cell(first+i))
	}
	return cells
}

// take returns a free range, which is the node's from now on.
func (r *ranges) take(node string) (netip.Prefix, error) {
	for i := range r.count {
		index := (r.next + i) % r.count
		p := r.cell(index)
		if _, taken := r.owner[p]; !taken {
			r.owner[p] = node
			r.next = index + 1
			r.usage.tried(i)
			r.usage.changed(1, 0, len(r.owner), r.count)
			return p, nil
		}
	}
	return netip.Prefix{}, errExhausted
}

// release frees all ranges of a node.
func (r *ranges) release(node string) {
	had := len(r.owner)
	for p, o := range r.owner {
		if o == node {
			delete(r.owner, p)
		}
	}
	r.usage.changed(0, had-len(r.owner), len(r.owner), r.count)
}

// cell is the i-th range.
func (r *ranges) cell(i uint64) netip.Prefix {
	base := r.cluster.Addr().As16()
	shift := uint(r.cluster.Addr().BitLen() - r.bits)
	high, low := binary.BigEndian.Uint64(base[:8]), binary.BigEndian.Uint64(base[8:])
	if shift >= 64 {
		high += i << (shift - 64)
	} else {
		low += i << shift // count is at most 2^24 of them: a carry into high needs shift > 40
		if shift > 40 {
			high += i >> (64 - shift)
		}
	}
	binary.BigEndian.PutUint64(base[:8], high)
	binary.BigEndian.PutUint64(base[8:], low)
	a := netip.AddrFrom16(base)
	if r.cluster.Addr().Is4() {
		a = a.Unmap()
	}
	return netip.PrefixFrom(a, r.bits)
}

// index is the number of the range that an address lies in.
func (r *ranges) index(a netip.Addr) uint64 {
	x, base := a.As16(), r.cluster.Addr().As16()
	shift := uint(r.cluster.Addr().BitLen() - r.bits)
	high := binary.BigEndian.Uint64(x[:8]) - binary.BigEndian.Uint64(base[:8])
	low := binary.BigEndian.Uint64(x[8:]) - binary.BigEndian.Uint64(base[8:])
	if shift >= 64 {
		return high >> (shift - 64)
	}
	return low>>shift | high<<(64-shift)
}

// of returns the range that a node holds.
func (r *ranges) of(node string) (netip.Prefix, bool) {
	for p, o := range r.owner {
		if o == node {
			return p, true
		}
	}
	return netip.Prefix{}, false
}
