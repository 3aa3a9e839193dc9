package proxy

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"howdah.dev/services/ingress/internal/route"
)

// pick chooses the endpoint for a request, other than those that were tried for it: of two that chance names, the one that answers fewer requests now. With
// session affinity it is the one that the client's address leads to, the same at every proxy, and another only when that one is gone or cannot be reached.
// Endpoints that could not be reached lately come last. There is one that was not tried.
func pick(b *route.Backend, client netip.Addr, tried []*route.Endpoint, now time.Time) *route.Endpoint {
	good := func(e *route.Endpoint) bool { return !slices.Contains(tried, e) && !e.Resting(now) }
	if !slices.ContainsFunc(b.Endpoints, good) {
		good = func(e *route.Endpoint) bool { return !slices.Contains(tried, e) }
	}
	if b.Sticky {
		return nearest(b.Endpoints, client, good)
	}
	first, second := from(b.Endpoints, good), from(b.Endpoints, good)
	if second.Active.Load() < first.Active.Load() {
		return second
	}
	return first
}

// from returns the first good endpoint at or behind a place that chance names.
func from(endpoints []*route.Endpoint, good func(*route.Endpoint) bool) *route.Endpoint {
	start := rand.IntN(len(endpoints))
	for n := range endpoints {
		if e := endpoints[(start+n)%len(endpoints)]; good(e) {
			return e
		}
	}
	return endpoints[start]
}

// nearest returns the good endpoint whose hash with the client's address is the highest: when endpoints come or go, only the clients of those move.
func nearest(endpoints []*route.Endpoint, client netip.Addr, good func(*route.Endpoint) bool) *route.Endpoint {
	address := client.AsSlice()
	best, most := endpoints[0], uint64(0)
	for _, e := range endpoints {
		if !good(e) {
			continue
		}
		if sum := xxhash.Sum64(append(slices.Clone(address), e.Address...)); sum >= most {
			best, most = e, sum
		}
	}
	return best
}
