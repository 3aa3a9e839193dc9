package allocator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

// Session is the reservations of one write.
type Session struct {
	allocator *Allocator
	owner     Owner
	dryRun    bool
	dryPort   int // the highest port of a dry run so far
	dryPorts  int // and how many there are
	order     []string
	added     map[string]bool
	freed     map[string]bool
}

var _ registry.Allocator = (*Session)(nil)

// Reserve implements registry.Allocator.
func (s *Session) Reserve(ctx context.Context, r registry.Reservation) error {
	k := s.allocator.key(r)
	if s.dryRun {
		return s.wouldReserve(r, k)
	}
	start := time.Now()
	err := s.reserve(ctx, r, k)
	s.allocator.reserved(r, start, err)
	return err
}

func (s *Session) reserve(ctx context.Context, r registry.Reservation, k string) error {
	if err := s.inRange(ctx, r); err != nil {
		return err
	}
	if s.freed[k] {
		delete(s.freed, k)
		return nil
	}
	if s.take(k) {
		return nil
	}
	// It may have been given back at another apiserver a moment ago.
	if err := s.allocator.cfg.Fresh(ctx); err != nil {
		return err
	}
	if s.take(k) {
		return nil
	}
	if r.Pool == NodePorts {
		return ErrTakenPort
	}
	return ErrTakenIP
}

func (s *Session) wouldReserve(r registry.Reservation, k string) error {
	if r.Pool == NodePorts {
		if !s.take(k) {
			return ErrTakenPort
		}
		if port, err := strconv.Atoi(r.Value); err == nil {
			s.dryPort, s.dryPorts = max(s.dryPort, port), s.dryPorts+1
		}
		return nil
	}
	ip, err := parse(r.Value)
	if err != nil {
		return err
	}
	cidr := s.allocator.configured(ip.Is6())
	if !gives(cidr, ip) {
		return fmt.Errorf("the provided IP (%s) is not in the valid range. The range of valid IPs is %s", r.Value, cidr)
	}
	return nil
}

// inRange checks that a value may be given out.
func (s *Session) inRange(ctx context.Context, r registry.Reservation) error {
	a := s.allocator
	switch r.Pool {
	case NodePorts:
		text, _, _ := strings.Cut(r.Value, "/")
		port, err := strconv.Atoi(text)
		if err != nil || port < a.cfg.FirstPort || port > a.cfg.LastPort {
			return fmt.Errorf("provided port is not in the valid range. The range of valid ports is %d-%d", a.cfg.FirstPort, a.cfg.LastPort)
		}
		return nil
	case ClusterIPs:
		ip, err := parse(r.Value)
		if err != nil {
			return err
		}
		if a.ranged(ip) {
			return nil
		}
		// The range may have come at another apiserver a moment ago.
		if err := a.cfg.Fresh(ctx); err != nil {
			return err
		}
		if !a.ranged(ip) {
			return ErrOutside
		}
		return nil
	}
	return fmt.Errorf("pool %q is unknown", r.Pool)
}

// Next implements registry.Allocator. The pool "nodeports" gives a bare port; "nodeports/UDP" gives one with its
// protocol, of which no other protocol's port is reserved either. "clusterips/IPv4" gives an address of that family.
func (s *Session) Next(ctx context.Context, pool string) (string, error) {
	base, rest, ok := strings.Cut(pool, "/")
	switch {
	case base == ClusterIPs && ok:
		return s.nextIP(ctx, rest == "IPv6")
	case s.dryRun:
		if s.dryPorts == 0 {
			s.dryPort = beforeDryPort
		}
		s.dryPort, s.dryPorts = s.dryPort+1, s.dryPorts+1
		return strconv.Itoa(s.dryPort), nil
	}
	value, err := s.nextPort(base, rest)
	s.allocator.metrics.port(dynamic, err)
	return value, err
}

func (s *Session) nextPort(pool, protocol string) (string, error) {
	cfg := s.allocator.cfg
	size := cfg.LastPort - cfg.FirstPort + 1
	if pool != NodePorts || size <= 0 {
		return "", fmt.Errorf("pool %q: %w", pool, ErrFull)
	}
	// The lower ports are left for those that ask for one by number, as long as others are free.
	low := band(size, 16, 128)
	pick := func(first, count int) (string, bool) {
		start := rand.IntN(max(count, 1))
		for i := range count {
			port := strconv.Itoa(cfg.FirstPort + first + (start+i)%count)
			value := port
			if protocol != "" {
				value += "/" + protocol
			}
			if s.allocator.portFree(port) && s.take(Prefix+NodePorts+"/"+value) {
				return value, true
			}
		}
		return "", false
	}
	if v, ok := pick(low, size-low); ok {
		return v, nil
	}
	if v, ok := pick(0, low); ok {
		return v, nil
	}
	return "", ErrFull
}

func (s *Session) nextIP(ctx context.Context, six bool) (string, error) {
	if s.dryRun {
		return s.allocator.configured(six).Addr().String(), nil
	}
	if ip, ok := s.pickIP(six); ok {
		return ip, nil
	}
	// Addresses or a range may have come at another apiserver a moment ago.
	if err := s.allocator.cfg.Fresh(ctx); err != nil {
		return "", err
	}
	if ip, ok := s.pickIP(six); ok {
		return ip, nil
	}
	for _, p := range s.allocator.cfg.Addresses.Ranges() {
		if p.Addr().Is6() == six {
			s.allocator.metrics.address(p, dynamic, time.Now(), ErrFull)
		}
	}
	return "", ErrFull
}

func (s *Session) pickIP(six bool) (string, bool) {
	began := time.Now()
	for _, p := range s.allocator.cfg.Addresses.Ranges() {
		if p.Addr().Is6() != six {
			continue
		}
		first, size := usable(p)
		low := band(size, 16, 256)
		for _, part := range [][2]int{{low, size - low}, {0, low}} {
			start := rand.IntN(max(part[1], 1))
			for i := range part[1] {
				ip := offset(first, part[0]+(start+i)%part[1]).String()
				if k := s.allocator.cfg.Addresses.Prefix() + ip; !s.added[k] && s.take(k) {
					s.allocator.metrics.address(p, dynamic, began, nil)
					return ip, true
				}
			}
		}
	}
	return "", false
}

// Free implements registry.Allocator.
func (s *Session) Free(r registry.Reservation) {
	k := s.allocator.key(r)
	if s.added[k] {
		delete(s.added, k)
		s.allocator.drop(k, s)
		return
	}
	s.allocator.mu.Lock()
	_, ok := s.allocator.taken[k]
	s.allocator.mu.Unlock()
	if ok {
		s.order = append(s.order, k)
		s.freed[k] = true
	}
}

// Writes returns what has to be committed together with the object.
func (s *Session) Writes(ctx context.Context) ([]store.Write, error) {
	var writes []store.Write
	seen := map[string]bool{}
	for _, k := range s.order {
		if seen[k] {
			continue
		}
		seen[k] = true
		switch {
		case s.added[k]:
			value, err := s.value(ctx, k)
			if err != nil {
				return nil, err
			}
			writes = append(writes, store.Write{Op: store.Create, Key: k, Value: value})
		case s.freed[k]:
			writes = append(writes, store.Write{Op: store.Delete, Key: k})
		}
	}
	return writes, nil
}

func (s *Session) value(ctx context.Context, k string) ([]byte, error) {
	name, ok := strings.CutPrefix(k, s.allocator.cfg.Addresses.Prefix())
	if !ok {
		return []byte(s.owner.Key), nil
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return nil, err
	}
	return s.allocator.cfg.Addresses.Encode(ctx, ip, s.owner)
}

// End gives back what the session holds. What was committed stays reserved.
func (s *Session) End(committed bool) {
	s.allocator.mu.Lock()
	defer s.allocator.mu.Unlock()
	for k := range s.added {
		if s.allocator.held[k] == s {
			delete(s.allocator.held, k)
			if committed {
				s.allocator.taken[k] = struct{}{}
			}
		}
	}
}

func (s *Session) take(k string) bool {
	s.allocator.mu.Lock()
	defer s.allocator.mu.Unlock()
	if s.allocator.held[k] == s {
		return true
	}
	if _, taken := s.allocator.taken[k]; taken || s.allocator.held[k] != nil {
		return false
	}
	s.allocator.held[k] = s
	s.added[k] = true
	s.order = append(s.order, k)
	return true
}
