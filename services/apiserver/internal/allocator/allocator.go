// Package allocator hands out cluster-unique values: the addresses and node ports of Services.
//
// A value is reserved by a key of its own, which is created in the same transaction as the object that holds it: that of an
// IPAddress object for an address, one of the allocator's own for a port. Two apiservers that pick the same value cannot both
// commit: the second plans its write again.
package allocator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	netutils "k8s.io/utils/net"

	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

// Prefix is that of the keys of reserved ports; pool and value follow.
const Prefix = "/howdah/reservation/"

// The pools.
const (
	ClusterIPs = "clusterips"
	NodePorts  = "nodeports"
)

// beforeDryPort is the port before the first that a dry run shows, of a Service that names none. Kubernetes shows the same.
const beforeDryPort = 32768

// The refusals, in Kubernetes' words.
var (
	ErrTakenIP   = errors.New("provided IP is already allocated")
	ErrTakenPort = errors.New("provided port is already allocated")
	ErrFull      = errors.New("range is full")
	ErrOutside   = errors.New("the provided network does not match the current range")
)

// Owner is the object that a write's reservations are for.
type Owner struct{ Key, Namespace, Name string }

// Addresses are the IPAddress objects of the cluster.
type Addresses interface {
	// Prefix is that of their keys; the address follows.
	Prefix() string
	// Encode returns the stored form of the one that reserves an address for a Service.
	Encode(ctx context.Context, address netip.Addr, owner Owner) ([]byte, error)
	// Ranges returns the ranges that addresses may come from at the moment, those to be used first in front.
	Ranges() []netip.Prefix
}

// Config says what may be handed out.
type Config struct {
	// ServiceCIDRs are the ranges that the apiserver was started with, of which a dry run takes addresses.
	ServiceCIDRs []netip.Prefix
	Addresses    Addresses
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

func (a *Allocator) reset(prefix string, keys []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.taken, func(key string, _ struct{}) bool { return strings.HasPrefix(key, prefix) })
	for _, k := range keys {
		a.taken[k] = struct{}{}
	}
}

// Apply tells of one change.
func (a *Allocator) Apply(key string, removed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if removed {
		delete(a.taken, key)
		return
	}
	a.taken[key] = struct{}{}
	delete(a.held, key) // whoever holds it has committed it
}

// Ports follows the keys of reserved ports, and Held those of IPAddresses: each with its own share of what is taken.
func (a *Allocator) Ports() Share { return Share{a, Prefix} }

// Held is described with Ports.
func (a *Allocator) Held() Share { return Share{a, a.cfg.Addresses.Prefix()} }

// Share is the part of an allocator that follows the keys under a prefix. It implements cache.Observer.
type Share struct {
	allocator *Allocator
	prefix    string
}

// Reset implements cache.Observer.
func (s Share) Reset(keys []string) { s.allocator.reset(s.prefix, keys) }

// Apply implements cache.Observer.
func (s Share) Apply(key string, removed bool) { s.allocator.Apply(key, removed) }

// Begin starts the reservations of one write to owner. End gives back what was not committed. A dry run reserves nothing: it
// asks no more than Kubernetes does then, which is whether a port is taken and whether an address is in the range.
func (a *Allocator) Begin(owner Owner, dryRun bool) *Session {
	return &Session{allocator: a, owner: owner, dryRun: dryRun, added: map[string]bool{}, freed: map[string]bool{}}
}

// Release returns the writes that free values, of those that are reserved.
func (a *Allocator) Release(values []registry.Reservation) []store.Write {
	a.mu.Lock()
	defer a.mu.Unlock()
	var writes []store.Write
	for _, r := range values {
		if _, ok := a.taken[a.key(r)]; ok {
			writes = append(writes, store.Write{Op: store.Delete, Key: a.key(r)})
		}
	}
	return writes
}

func (a *Allocator) key(r registry.Reservation) string {
	if r.Pool != ClusterIPs {
		return Prefix + r.Pool + "/" + r.Value
	}
	name := r.Value
	if ip, err := parse(r.Value); err == nil {
		name = ip.String() // IPAddresses have the one canonical name
	}
	return a.cfg.Addresses.Prefix() + name
}

// parse reads an address as Services have them: IPv4 numbers may have leading zeros there.
func parse(text string) (netip.Addr, error) {
	ip, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(text))
	if !ok {
		return netip.Addr{}, fmt.Errorf("%q is not an IP address", text)
	}
	return ip.Unmap(), nil
}

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
	if !cidr.Contains(ip) {
		return fmt.Errorf("the provided IP (%s) is not in the valid range. The range of valid IPs is %s", r.Value, cidr)
	}
	return nil
}

// configured is the range of a family that the apiserver was started with.
func (a *Allocator) configured(six bool) netip.Prefix {
	for _, p := range a.cfg.ServiceCIDRs {
		if p.Addr().Is6() == six {
			return p.Masked()
		}
	}
	return netip.Prefix{}
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

// ranged reports whether an address is one of those that a range gives out.
func (a *Allocator) ranged(ip netip.Addr) bool {
	return slices.ContainsFunc(a.cfg.Addresses.Ranges(), func(p netip.Prefix) bool {
		first, size := usable(p)
		return size > 0 && p.Contains(ip) && !ip.Less(first) && (p.Addr().Is6() || !offset(first, size-1).Less(ip))
	})
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
	return s.nextPort(base, rest)
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
	return "", ErrFull
}

func (s *Session) pickIP(six bool) (string, bool) {
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
					return ip, true
				}
			}
		}
	}
	return "", false
}

// usable is the first address that a range gives out, and how many there are: the network's own address and, in IPv4, the
// broadcast one are nobody's. Of a large range the first 2^24 are used.
func usable(p netip.Prefix) (first netip.Addr, size int) {
	size = 1<<min(p.Addr().BitLen()-p.Bits(), 24) - 1
	if p.Addr().Is4() {
		size--
	}
	return p.Masked().Addr().Next(), max(size, 0)
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
