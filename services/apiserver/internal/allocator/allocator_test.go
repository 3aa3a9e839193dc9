package allocator

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

// addresses are ranges, and IPAddresses that are their owner's key.
type addresses []netip.Prefix

func (addresses) Prefix() string { return "/ip/" }

func (addresses) Encode(_ context.Context, ip netip.Addr, o Owner) ([]byte, error) {
	return []byte(o.Key + " " + ip.String()), nil
}

func (a addresses) Ranges() []netip.Prefix { return a }

func setup(cidr string, first, last int) *Allocator {
	ranges := addresses{netip.MustParsePrefix(cidr)}
	return New(Config{
		ServiceCIDRs: ranges, Addresses: ranges, FirstPort: first, LastPort: last, Fresh: func(context.Context) error { return nil },
	})
}

func TestNextGivesEachAddressOnce(t *testing.T) {
	t.Parallel()
	for cidr, want := range map[string]int{"10.0.0.0/29": 6, "10.0.0.0/24": 254, "10.0.0.0/32": 0, "fd00::/125": 7} {
		a := setup(cidr, 1, 1)
		seen := map[string]bool{}
		pool := ClusterIPs + "/IPv4"
		if strings.Contains(cidr, ":") {
			pool = ClusterIPs + "/IPv6"
		}
		for {
			s := a.Begin(Owner{Key: "owner"}, false)
			ip, err := s.Next(t.Context(), pool)
			if errors.Is(err, ErrFull) {
				break
			}
			if err != nil || seen[ip] || !netip.MustParsePrefix(cidr).Contains(netip.MustParseAddr(ip)) {
				t.Fatalf("%s: %s, seen %v, %v", cidr, ip, seen[ip], err)
			}
			seen[ip] = true
			s.End(true)
		}
		if len(seen) != want || seen[netip.MustParsePrefix(cidr).Addr().String()] {
			t.Errorf("%s gave %d addresses, wanted %d", cidr, len(seen), want)
		}
	}
}

func TestReservations(t *testing.T) {
	t.Parallel()
	a := setup("10.0.0.0/24", 30000, 30010)
	ip := registry.Reservation{Pool: ClusterIPs, Value: "10.0.0.9"}
	port := registry.Reservation{Pool: NodePorts, Value: "30001"}
	one, two := a.Begin(Owner{Key: "one"}, false), a.Begin(Owner{Key: "two"}, false)
	if err := errors.Join(one.Reserve(t.Context(), ip), one.Reserve(t.Context(), port), one.Reserve(t.Context(), port)); err != nil {
		t.Fatal(err)
	}
	if err := two.Reserve(t.Context(), ip); !errors.Is(err, ErrTakenIP) {
		t.Errorf("an address that is held: %v", err)
	}
	if err := two.Reserve(t.Context(), port); !errors.Is(err, ErrTakenPort) {
		t.Errorf("a port that is held: %v", err)
	}
	for _, r := range []registry.Reservation{{Pool: NodePorts, Value: "80"}, {Pool: ClusterIPs, Value: "10.1.0.1"}, {Pool: ClusterIPs, Value: "x"}, {Pool: "nonsense", Value: "1"}} {
		if two.Reserve(t.Context(), r) == nil {
			t.Errorf("%v was given", r)
		}
	}
	w, err := one.Writes(t.Context())
	if err != nil || len(w) != 2 || w[0].Op != store.Create || w[0].Key != "/ip/10.0.0.9" || string(w[0].Value) != "one 10.0.0.9" || string(w[1].Value) != "one" {
		t.Errorf("%+v %v", w, err)
	}
	one.End(false) // the write failed
	if err := two.Reserve(t.Context(), ip); err != nil {
		t.Errorf("an address that was given back: %v", err)
	}
	two.End(true)
	if w := a.Release([]registry.Reservation{ip, port}); len(w) != 1 || w[0].Op != store.Delete {
		t.Errorf("release: %+v", w)
	}
	three := a.Begin(Owner{Key: "three"}, false)
	three.Free(ip)
	if err := three.Reserve(t.Context(), ip); err != nil {
		t.Errorf("freed and taken again: %v", err)
	}
	if w, err := three.Writes(t.Context()); err != nil || len(w) != 0 {
		t.Errorf("freed and taken again: %v %+v", err, w)
	}
	a.Apply(a.key(ip), true)
	if err := a.Begin(Owner{Key: "four"}, false).Reserve(t.Context(), ip); err != nil {
		t.Errorf("after the log says that it is free: %v", err)
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	ranges := addresses{netip.MustParsePrefix("10.0.0.0/30"), netip.MustParsePrefix("10.0.1.0/30"), netip.MustParsePrefix("fd00::/126")}
	a := New(Config{ServiceCIDRs: ranges, Addresses: ranges, FirstPort: 1, LastPort: 1, Fresh: func(context.Context) error { return nil }})
	s := a.Begin(Owner{Key: "owner"}, false)
	for ip, want := range map[string]error{
		"10.0.0.0": ErrOutside, "10.0.0.3": ErrOutside, "10.0.2.1": ErrOutside, "fd00::": ErrOutside, "10.0.1.2": nil, "fd00:0:0::3": nil,
	} {
		if err := s.Reserve(t.Context(), registry.Reservation{Pool: ClusterIPs, Value: ip}); !errors.Is(err, want) {
			t.Errorf("%s: %v", ip, err)
		}
	}
	var got []string
	for range 3 {
		ip, err := s.Next(t.Context(), ClusterIPs+"/IPv4")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ip)
	}
	if got[2] != "10.0.1.1" { // the first range is used up first
		t.Errorf("%v", got)
	}
	if _, err := s.Next(t.Context(), ClusterIPs+"/IPv4"); !errors.Is(err, ErrFull) {
		t.Errorf("a fourth address: %v", err)
	}
	if _, taken := s.added["/ip/fd00::3"]; !taken {
		t.Errorf("%v has no canonical name", s.added)
	}
}

func TestDryRunReservesNothing(t *testing.T) {
	t.Parallel()
	a := setup("10.0.0.0/24", 30000, 30010)
	a.Apply(a.key(registry.Reservation{Pool: NodePorts, Value: "30001"}), false)
	a.Apply(a.key(registry.Reservation{Pool: ClusterIPs, Value: "10.0.0.9"}), false)
	s, fresh := a.Begin(Owner{Key: "owner"}, true), a.Begin(Owner{Key: "owner"}, true)
	for r, want := range map[registry.Reservation]string{
		{Pool: NodePorts, Value: "30001"}:     ErrTakenPort.Error(),
		{Pool: NodePorts, Value: "80"}:        "",
		{Pool: ClusterIPs, Value: "10.0.0.9"}: "",
		{Pool: ClusterIPs, Value: "10.0.0.0"}: "the provided IP (10.0.0.0) is not in the valid range. The range of valid IPs is 10.0.0.0/24",
		{Pool: ClusterIPs, Value: "10.0.1.0"}: "the provided IP (10.0.1.0) is not in the valid range. The range of valid IPs is 10.0.0.0/24",
	} {
		got := ""
		if err := s.Reserve(t.Context(), r); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%v: %q", r, got)
		}
	}
	for pool, want := range map[string]string{ClusterIPs + "/IPv4": "10.0.0.0", NodePorts: "81"} { // the next behind 80
		if got, err := s.Next(t.Context(), pool); err != nil || got != want {
			t.Errorf("%s: %s %v", pool, got, err)
		}
	}
	for _, want := range []string{"32769", "32770"} {
		if got, err := fresh.Next(t.Context(), NodePorts); err != nil || got != want {
			t.Errorf("%s %v, wanted %s", got, err, want)
		}
	}
	s.End(false)
	if err := a.Begin(Owner{Key: "other"}, false).Reserve(t.Context(), registry.Reservation{Pool: ClusterIPs, Value: "10.0.0.10"}); err != nil {
		t.Error(err)
	}
}

// What another apiserver commits of what is held here is taken, and stays so when the write here fails.
func TestTheLogDecides(t *testing.T) {
	t.Parallel()
	a := setup("10.0.0.0/24", 30000, 30010)
	ip := registry.Reservation{Pool: ClusterIPs, Value: "10.0.0.9"}
	one := a.Begin(Owner{Key: "one"}, false)
	if err := one.Reserve(t.Context(), ip); err != nil {
		t.Fatal(err)
	}
	a.Held().Apply(a.key(ip), false)
	one.End(false)
	if err := a.Begin(Owner{Key: "two"}, false).Reserve(t.Context(), ip); !errors.Is(err, ErrTakenIP) {
		t.Errorf("%v", err)
	}
	a.Held().Reset(nil)
	if err := a.Begin(Owner{Key: "three"}, false).Reserve(t.Context(), ip); err != nil {
		t.Errorf("after a reset: %v", err)
	}
}
