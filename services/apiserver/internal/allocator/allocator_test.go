package allocator

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

func setup(cidr string, first, last int) *Allocator {
	return New(Config{ServiceCIDR: netip.MustParsePrefix(cidr), FirstPort: first, LastPort: last, Fresh: func(context.Context) error { return nil }})
}

func TestNextGivesEachAddressOnce(t *testing.T) {
	t.Parallel()
	for cidr, want := range map[string]int{"10.0.0.0/29": 6, "10.0.0.0/24": 254, "10.0.0.0/32": 0, "fd00::/125": 7} {
		a := setup(cidr, 1, 1)
		seen := map[string]bool{}
		for {
			s := a.Begin("owner")
			ip, err := s.Next(t.Context(), ClusterIPs)
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
	one, two := a.Begin("one"), a.Begin("two")
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
	if w := one.Writes(); len(w) != 2 || w[0].Op != store.Create || w[0].Key != Prefix+"clusterips/10.0.0.9" || string(w[0].Value) != "one" {
		t.Errorf("%+v", w)
	}
	one.End(false) // the write failed
	if err := two.Reserve(t.Context(), ip); err != nil {
		t.Errorf("an address that was given back: %v", err)
	}
	two.End(true)
	if w := a.Release([]registry.Reservation{ip, port}); len(w) != 1 || w[0].Op != store.Delete {
		t.Errorf("release: %+v", w)
	}
	three := a.Begin("three")
	three.Free(ip)
	if err := three.Reserve(t.Context(), ip); err != nil || len(three.Writes()) != 0 {
		t.Errorf("freed and taken again: %v %+v", err, three.Writes())
	}
	a.Apply(key(ip), true)
	if err := a.Begin("four").Reserve(t.Context(), ip); err != nil {
		t.Errorf("after the log says that it is free: %v", err)
	}
}
