// Package allocator hands out cluster-unique values: the addresses and node ports of Services.
//
// A value is reserved by a key of its own, which is created in the same transaction as the object that holds it. Two
// apiservers that pick the same value cannot both commit: the second plans its write again.
package allocator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

// Prefix is that of every reservation's key; pool and value follow.
const Prefix = "/howdah/reservation/"

// The pools.
const (
	ClusterIPs = "clusterips"
	NodePorts  = "nodeports"
)

// The refusals, in Kubernetes' words.
var (
	ErrTakenIP   = errors.New("provided IP is already allocated")
	ErrTakenPort = errors.New("provided port is already allocated")
	ErrFull      = errors.New("range is full")
)

// Config says what may be handed out.
type Config struct {
	ServiceCIDR netip.Prefix
	// FirstPort and LastPort bound the node ports, both included.
	FirstPort, LastPort int
	// Fresh waits until every reservation that is committed is known here.
	Fresh func(ctx context.Context) error
}

// Allocator knows which values are reserved. It is fed by the cache.
type Allocator struct {
	cfg Config

	mu    sync.Mutex
	taken map[string]struct{} // keys that are committed
	held  map[string]*Session // keys of writes under way here
}

// New returns an allocator that knows of no reservation yet.
func New(cfg Config) *Allocator {
	return &Allocator{cfg: cfg, taken: map[string]struct{}{}, held: map[string]*Session{}}
}

// Reset implements cache.Observer.
func (a *Allocator) Reset(keys []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken = make(map[string]struct{}, len(keys))
	for _, k := range keys {
		a.taken[k] = struct{}{}
	}
}

// Apply implements cache.Observer.
func (a *Allocator) Apply(key string, removed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if removed {
		delete(a.taken, key)
		return
	}
	a.taken[key] = struct{}{}
}

// Begin starts the reservations of one write to the object with the given key. End gives back what was not committed.
func (a *Allocator) Begin(owner string) *Session {
	return &Session{allocator: a, owner: owner, added: map[string]bool{}, freed: map[string]bool{}}
}

// Release returns the writes that free values, of those that are reserved.
func (a *Allocator) Release(values []registry.Reservation) []store.Write {
	a.mu.Lock()
	defer a.mu.Unlock()
	var writes []store.Write
	for _, r := range values {
		if _, ok := a.taken[key(r)]; ok {
			writes = append(writes, store.Write{Op: store.Delete, Key: key(r)})
		}
	}
	return writes
}

func key(r registry.Reservation) string { return Prefix + r.Pool + "/" + r.Value }

// Session is the reservations of one write.
type Session struct {
	allocator *Allocator
	owner     string
	order     []string
	added     map[string]bool
	freed     map[string]bool
}

var _ registry.Allocator = (*Session)(nil)

// Reserve implements registry.Allocator.
func (s *Session) Reserve(ctx context.Context, r registry.Reservation) error {
	if err := s.allocator.inRange(r); err != nil {
		return err
	}
	k := key(r)
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

// Next implements registry.Allocator. The pool "nodeports" gives a bare port; "nodeports/UDP" gives one with its
// protocol, of which no other protocol's port is reserved either.
func (s *Session) Next(_ context.Context, pool string) (string, error) {
	if base, protocol, ok := strings.Cut(pool, "/"); ok || pool == NodePorts {
		return s.nextPort(base, protocol)
	}
	return s.nextIP(pool)
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

func (s *Session) nextIP(pool string) (string, error) {
	cidr := s.allocator.cfg.ServiceCIDR
	if pool != ClusterIPs || !cidr.IsValid() {
		return "", fmt.Errorf("pool %q: %w", pool, ErrFull)
	}
	// The network's own address and, in IPv4, the broadcast one are nobody's.
	bits := min(cidr.Addr().BitLen()-cidr.Bits(), 24)
	size := 1<<bits - 1
	if cidr.Addr().Is4() {
		size--
	}
	if size <= 0 {
		return "", ErrFull
	}
	low := band(size, 16, 256)
	pick := func(first, count int) (string, bool) {
		start := rand.IntN(max(count, 1))
		for i := range count {
			value := offset(cidr.Addr(), first+(start+i)%count+1).String()
			if s.take(Prefix + ClusterIPs + "/" + value) {
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

// Free implements registry.Allocator.
func (s *Session) Free(r registry.Reservation) {
	k := key(r)
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
func (s *Session) Writes() []store.Write {
	var writes []store.Write
	seen := map[string]bool{}
	for _, k := range s.order {
		if seen[k] {
			continue
		}
		seen[k] = true
		switch {
		case s.added[k]:
			writes = append(writes, store.Write{Op: store.Create, Key: k, Value: []byte(s.owner)})
		case s.freed[k]:
			writes = append(writes, store.Write{Op: store.Delete, Key: k})
		}
	}
	return writes
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

func (a *Allocator) drop(k string, s *Session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held[k] == s {
		delete(a.held, k)
	}
}

func (a *Allocator) portFree(port string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, suffix := range []string{"", "/TCP", "/UDP", "/SCTP"} {
		k := Prefix + NodePorts + "/" + port + suffix
		if _, taken := a.taken[k]; taken || a.held[k] != nil {
			return false
		}
	}
	return true
}

func (a *Allocator) inRange(r registry.Reservation) error {
	switch r.Pool {
	case NodePorts:
		text, _, _ := strings.Cut(r.Value, "/")
		port, err := strconv.Atoi(text)
		if err != nil || port < a.cfg.FirstPort || port > a.cfg.LastPort {
			return fmt.Errorf("provided port is not in the valid range. The range of valid ports is %d-%d", a.cfg.FirstPort, a.cfg.LastPort)
		}
	case ClusterIPs:
		ip, err := netip.ParseAddr(r.Value)
		if err != nil || !a.cfg.ServiceCIDR.Contains(ip) {
			return fmt.Errorf("the provided IP (%s) is not in the valid range. The range of valid IPs is %s", r.Value, a.cfg.ServiceCIDR)
		}
	default:
		return fmt.Errorf("pool %q is unknown", r.Pool)
	}
	return nil
}
