package cni

import (
	"fmt"
	"net/netip"
	"time"
)

const (
	// quarantine is how long a released address rests while others are free or become so: connections of its
	// former pod may still be tried.
	quarantine = 30 * time.Second
	// forget is when a released address counts as never used.
	forget = time.Hour
	// scan bounds the search in wide (IPv6) ranges.
	scan = 1 << 16
)

// attachment is one interface of one sandbox.
type attachment struct {
	Container string `json:"container"`
	Interface string `json:"interface"`
}

// lease is one address: taken, or at rest since Released.
type lease struct {
	attachment
	Released *time.Time `json:"released,omitempty"`
}

// ledger says who has which address. It is the whole state of the plugin.
type ledger struct {
	Leases map[netip.Addr]lease        `json:"leases"`
	Last   map[netip.Prefix]netip.Addr `json:"last"`
}

func newLedger() *ledger {
	return &ledger{Leases: map[netip.Addr]lease{}, Last: map[netip.Prefix]netip.Addr{}}
}

// allocate gives an attachment one address of each prefix: those it has already, or else the next in turn, so that
// an address comes back as late as possible.
func (l *ledger) allocate(prefixes []netip.Prefix, a attachment, now time.Time) ([]netip.Addr, error) {
	l.prune(now)
	var out []netip.Addr
	for _, p := range prefixes {
		addr, ok := l.has(p, a)
		if !ok {
			var err error
			if addr, err = l.next(p, now); err != nil {
				return nil, err
			}
			l.Leases[addr] = lease{attachment: a}
			l.Last[p] = addr
		}
		out = append(out, addr)
	}
	return out, nil
}

// release puts an attachment's addresses to rest, whatever prefix they are of.
func (l *ledger) release(a attachment, now time.Time) {
	for addr, le := range l.Leases {
		if le.attachment == a && le.Released == nil {
			le.Released = &now
			l.Leases[addr] = le
		}
	}
}

// retain releases what belongs to none of these attachments, and names their owners.
func (l *ledger) retain(valid map[attachment]bool, now time.Time) []attachment {
	var gone []attachment
	for _, le := range l.Leases {
		if le.Released == nil && !valid[le.attachment] {
			gone = append(gone, le.attachment)
		}
	}
	for _, a := range gone {
		l.release(a, now)
	}
	return gone
}

// of lists an attachment's addresses.
func (l *ledger) of(a attachment) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for addr, le := range l.Leases {
		if le.attachment == a && le.Released == nil {
			out[addr] = true
		}
	}
	return out
}

func (l *ledger) has(p netip.Prefix, a attachment) (netip.Addr, bool) {
	for addr := range l.of(a) {
		if p.Contains(addr) {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// next finds the first address after the last one given that nobody has or had lately, or else the one that has
// rested longest.
func (l *ledger) next(p netip.Prefix, now time.Time) (netip.Addr, error) {
	addr := l.Last[p]
	for range min(scan, 1<<min(p.Addr().BitLen()-p.Bits(), 30)) {
		addr = following(p, addr)
		if _, known := l.Leases[addr]; !known {
			return addr, nil
		}
	}
	var oldest netip.Addr
	var since time.Time
	for addr, le := range l.Leases {
		if p.Contains(addr) && le.Released != nil && (!oldest.IsValid() || le.Released.Before(since)) {
			oldest, since = addr, *le.Released
		}
	}
	switch {
	case !oldest.IsValid():
		return netip.Addr{}, fmt.Errorf("no free address in %s: all are in use", p)
	case now.Sub(since) < quarantine:
		return netip.Addr{}, fmt.Errorf("no free address in %s: the last ones were released less than %s ago", p, quarantine)
	}
	return oldest, nil
}

// following is the next usable address of a prefix, in a circle. Not usable are the first (the network), the second
// (routers take it by habit), and in IPv4 the last (broadcast) if there is room.
func following(p netip.Prefix, addr netip.Addr) netip.Addr {
	first := p.Addr().Next()
	hostBits := p.Addr().BitLen() - p.Bits()
	if hostBits > 2 {
		first = first.Next()
	}
	if !addr.IsValid() || !p.Contains(addr) {
		return first
	}
	addr = addr.Next()
	if !addr.IsValid() || !p.Contains(addr) || p.Addr().Is4() && !p.Contains(addr.Next()) {
		return first
	}
	return addr
}

func (l *ledger) prune(now time.Time) {
	for addr, le := range l.Leases {
		if le.Released != nil && now.Sub(*le.Released) > forget {
			delete(l.Leases, addr)
		}
	}
}
