package proxy

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"howdah.dev/services/ingress/internal/route"
)

func backend(n int) *route.Backend {
	b := &route.Backend{}
	for i := range n {
		b.Endpoints = append(b.Endpoints, &route.Endpoint{Address: fmt.Sprintf("10.0.0.%d:80", i+1)})
	}
	return b
}

func TestBusyEndpointsGetLess(t *testing.T) {
	t.Parallel()
	b := backend(4)
	b.Endpoints[0].Active.Store(1000)
	counts := map[*route.Endpoint]int{}
	for range 3000 {
		e := pick(b, netip.Addr{}, nil, time.Time{})
		e.Active.Add(1)
		counts[e]++
	}
	if n := counts[b.Endpoints[0]]; n > 400 { // chance names it twice in one of sixteen
		t.Errorf("the busy one got %d of 3000", n)
	}
	for _, e := range b.Endpoints[1:] {
		if n := counts[e]; n < 700 {
			t.Errorf("%s got %d of 3000", e.Address, n)
		}
	}
}

func TestEndpointsThatRestComeLast(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, sticky := range []bool{false, true} {
		b := backend(3)
		b.Sticky = sticky
		b.Endpoints[0].Rest(now.Add(time.Second))
		b.Endpoints[1].Rest(now.Add(time.Second))
		for range 50 {
			if e := pick(b, netip.MustParseAddr("192.0.2.1"), nil, now); e != b.Endpoints[2] {
				t.Fatalf("%s rests", e.Address)
			}
			if e := pick(b, netip.MustParseAddr("192.0.2.1"), b.Endpoints[2:], now); e == b.Endpoints[2] {
				t.Fatalf("%s was tried before", e.Address)
			}
		}
		seen := map[*route.Endpoint]bool{}
		for n := range 200 {
			seen[pick(b, netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}), nil, now.Add(2*time.Second))] = true
		}
		if len(seen) != 3 {
			t.Errorf("%d endpoints take part when they have rested", len(seen))
		}
	}
}

// TestOnlyClientsOfEndpointsThatGoMove is what the affinity promises.
func TestOnlyClientsOfEndpointsThatGoMove(t *testing.T) {
	t.Parallel()
	whole, less := backend(5), backend(4)
	whole.Sticky, less.Sticky = true, true
	moved := 0
	for n := range 1000 {
		client := netip.AddrFrom4([4]byte{192, 0, byte(n >> 8), byte(n)})
		before, after := pick(whole, client, nil, time.Time{}), pick(less, client, nil, time.Time{})
		if before == whole.Endpoints[4] {
			moved++
		} else if before.Address != after.Address {
			t.Fatalf("%s moved from %s to %s", client, before.Address, after.Address)
		}
	}
	if moved < 100 || moved > 300 {
		t.Errorf("%d of 1000 clients were at one of five", moved)
	}
}
