package lb

import (
	"maps"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// late is how long a change may wait to be written before the balancer counts as not healthy.
const late = time.Minute

// HealthPort is where a load balancer in front of the nodes asks which of them have endpoints of a service.
type HealthPort struct {
	Port uint16
	// Endpoints is how many ready endpoints this node has.
	Endpoints int
}

// Health says whether the node balances as the objects say.
type Health struct {
	Healthy bool
	// Written is when everything was last in the maps; zero if it never was.
	Written time.Time
}

// Health looks at the balancer as it is now: healthy once the programs are attached, while no change has waited for a minute.
func (b *Balancer) Health() Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := Health{Written: b.written}
	select {
	case <-b.ready:
	default:
		return h
	}
	oldest := b.behind
	for _, c := range b.dirty {
		if oldest.IsZero() || c.Since().Before(oldest) {
			oldest = c.Since()
		}
	}
	h.Healthy = oldest.IsZero() || b.cfg.Now().Sub(oldest) < late
	return h
}

// fallBehind notes that a change of then is being written. b.mu is held.
func (b *Balancer) fallBehind(then time.Time) {
	if b.behind.IsZero() || then.Before(b.behind) {
		b.behind = then
	}
}

// caughtUp notes that all that was taken up is written.
func (b *Balancer) caughtUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.behind, b.written = time.Time{}, b.cfg.Now()
}

// tellHealth hands on the health ports if the updates, which are written, have changed them.
func (s *syncer) tellHealth(updates []update) {
	changed := false
	for _, u := range updates {
		if u.owner.kind != kindService {
			continue
		}
		name := types.NamespacedName{Namespace: u.owner.namespace, Name: u.owner.name}
		if s.health[name] == u.health {
			continue
		}
		changed = true
		if u.health == (HealthPort{}) {
			delete(s.health, name)
		} else {
			s.health[name] = u.health
		}
	}
	if changed && s.cfg.HealthPorts != nil {
		s.cfg.HealthPorts(maps.Clone(s.health))
	}
}

// healthPort computes a service's health port; the zero value if it has none.
func (in *inputs) healthPort(o owner) HealthPort {
	svc := in.services[o]
	if o.kind != kindService || svc == nil {
		return HealthPort{}
	}
	return healthPort(svc, in.slicesOf(svc), in.node)
}

// healthPort is the zero value unless a load balancer asks for the nodes that have endpoints. Only ready ones count: while all
// terminate they still serve who comes, but the load balancer is to send nobody any more.
func healthPort(svc *corev1.Service, endpointSlices []*discoveryv1.EndpointSlice, node Node) HealthPort {
	if _, other := svc.Labels[labelProxyName]; other || svc.Spec.Type != corev1.ServiceTypeLoadBalancer || !localOnly(svc) || svc.Spec.HealthCheckNodePort == 0 {
		return HealthPort{}
	}
	// A pod of two families has two endpoints, and counts once.
	ready := map[discoveryv1.AddressType]map[netip.Addr]bool{}
	most := 0
	for _, slice := range endpointSlices {
		for _, e := range slice.Endpoints {
			if len(e.Addresses) == 0 {
				continue
			}
			address, err := netip.ParseAddr(e.Addresses[0])
			if err != nil {
				continue
			}
			if ep := endpointFrom(e, netip.AddrPortFrom(address, 0), node); !ep.Local || !ep.ready {
				continue
			}
			if ready[slice.AddressType] == nil {
				ready[slice.AddressType] = map[netip.Addr]bool{}
			}
			ready[slice.AddressType][address] = true
			most = max(most, len(ready[slice.AddressType]))
		}
	}
	return HealthPort{Port: uint16(svc.Spec.HealthCheckNodePort), Endpoints: most}
}
