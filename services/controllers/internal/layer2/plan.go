// Package layer2 provides load balancers on the network that the nodes are on: each Service gets an address of a range that nobody else hands out, and one
// node at a time answers for it (ARP, and neighbour discovery for IPv6). Who that is stands in an annotation of the Service; the traffic is balanced by the nodes' own programs.
package layer2

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"howdah.dev/kit/object"
)

// Owns says that an annotation is this package's own.
func Owns(annotation string) bool { return annotation == object.LoadBalancerNodeAnnotation }

// Pool is the range that addresses are from.
type Pool struct{ ranges []netip.Prefix }

// NewPool returns the pool of these ranges, of one family or of both.
func NewPool(ranges []netip.Prefix) Pool { return Pool{ranges} }

// has says whether the address is one of the range's.
func (p Pool) has(a netip.Addr) bool {
	return slices.ContainsFunc(p.ranges, func(r netip.Prefix) bool { return r.Contains(a) })
}

// pick returns the addresses of a Service, one of each of its families, in their order. A Service that only prefers two families has to do with one where
// the pool has none of the other. taken says who has an address.
func (p Pool) pick(s *corev1.Service, taken func(netip.Addr) (by string, ok bool)) ([]netip.Addr, error) {
	families := s.Spec.IPFamilies
	if len(families) == 0 {
		families = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	var asked netip.Addr
	if text := s.Spec.LoadBalancerIP; text != "" {
		var err error
		if asked, err = netip.ParseAddr(text); err != nil {
			return nil, fmt.Errorf("loadBalancerIP %q: %w", text, err)
		}
		if !slices.Contains(families, familyOf(asked)) {
			return nil, fmt.Errorf("loadBalancerIP %s is none of the service's families %v", asked, families)
		}
	}
	prefers := s.Spec.IPFamilyPolicy != nil && *s.Spec.IPFamilyPolicy == corev1.IPFamilyPolicyPreferDualStack
	var all []netip.Addr
	for _, family := range families {
		mine, wants := p.of(family), netip.Addr{}
		if asked.IsValid() && familyOf(asked) == family {
			wants = asked
		}
		if prefers && !wants.IsValid() && len(mine.ranges) == 0 && len(p.ranges) > 0 {
			continue
		}
		a, err := mine.pickOne(family, wants, s.Status.LoadBalancer.Ingress, taken)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

func familyOf(a netip.Addr) corev1.IPFamily {
	if a.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// of is the pool of one family.
func (p Pool) of(family corev1.IPFamily) Pool {
	return Pool{slices.DeleteFunc(slices.Clone(p.ranges), func(r netip.Prefix) bool { return familyOf(r.Addr()) != family })}
}

// pickOne, of a pool of one family, returns the address that is asked for, else the one that the Service has, else the first that is free.
func (p Pool) pickOne(family corev1.IPFamily, asked netip.Addr, has []corev1.LoadBalancerIngress, taken func(netip.Addr) (by string, ok bool)) (netip.Addr, error) {
	if asked.IsValid() {
		if !p.has(asked) {
			return asked, fmt.Errorf("loadBalancerIP %s is not in the range of load balancers %v", asked, p.ranges)
		}
		if by, ok := taken(asked); ok {
			return asked, fmt.Errorf("loadBalancerIP %s is the service's %s", asked, by)
		}
		return asked, nil
	}
	if len(p.ranges) == 0 {
		return netip.Addr{}, fmt.Errorf("load balancers have no %s addresses here", family)
	}
	for _, ingress := range has {
		if a, err := netip.ParseAddr(ingress.IP); err == nil && p.has(a) {
			if _, ok := taken(a); !ok {
				return a, nil
			}
		}
	}
	for _, r := range p.ranges {
		for a := r.Masked().Addr(); r.Contains(a); a = a.Next() {
			if _, ok := taken(a); !ok && !routers(a) {
				return a, nil
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("no address is left in the range of load balancers %v", p.ranges)
}

// routers says whether an address is the one that all routers of an IPv6 network of the usual size have.
func routers(a netip.Addr) bool {
	b := a.As16()
	return a.Is6() && binary.BigEndian.Uint64(b[8:]) == 0
}

// Announcer returns the node that is to answer for the Service's address, "" for nobody. One that does goes on while it can, so that connections
// do not move without need; others are chosen by a hash of both names, which spreads services over nodes.
func Announcer(s *corev1.Service, nodes []*corev1.Node, slices []*discoveryv1.EndpointSlice) string {
	current, best, most := s.Annotations[object.LoadBalancerNodeAnnotation], "", uint64(0)
	local := s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	for _, n := range nodes {
		if !ready(n) || local && !serves(n.Name, slices) {
			continue
		}
		if n.Name == current {
			return current
		}
		h := fnv.New64a()
		fmt.Fprintf(h, "%s/%s %s", s.Namespace, s.Name, n.Name)
		if sum := h.Sum64(); best == "" || sum > most {
			best, most = n.Name, sum
		}
	}
	return best
}

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// serves says whether a node has an endpoint that is ready.
func serves(node string, all []*discoveryv1.EndpointSlice) bool {
	for _, slice := range all {
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			if e.NodeName != nil && *e.NodeName == node && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				return true
			}
		}
	}
	return false
}
