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
	"net/netip"
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
	cfg     Config
	metrics metrics

	mu    sync.Mutex
	taken map[string]struct{} // keys that are committed
	held  map[string]*Session // keys of writes under way here
}

// New returns an allocator that knows of no reservation yet.
func New(cfg Config) *Allocator {
	return &Allocator{cfg: cfg, metrics: newMetrics(), taken: map[string]struct{}{}, held: map[string]*Session{}}
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

// configured is the range of a family that the apiserver was started with.
func (a *Allocator) configured(six bool) netip.Prefix {
	for _, p := range a.cfg.ServiceCIDRs {
		if p.Addr().Is6() == six {
			return p.Masked()
		}
	}
	return netip.Prefix{}
}

// ranged reports whether an address is one of those that a range gives out.
func (a *Allocator) ranged(ip netip.Addr) bool {
	return a.rangeOf(ip).IsValid()
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
