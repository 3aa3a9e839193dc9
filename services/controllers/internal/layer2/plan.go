// Package layer2 provides load balancers on the network that the nodes are on: each Service gets an address of a range that nobody else hands out, and one
// node at a time answers for it (ARP). Who that is stands in an annotation of the Service; the traffic is balanced by the nodes' own programs.
package layer2

import (
	"errors"
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

// NewPool returns the pool of these ranges, which have to be of IPv4.
func NewPool(ranges []netip.Prefix) (Pool, error) {
	for _, r := range ranges {
		if !r.Addr().Is4() {
			return Pool{}, fmt.Errorf("load balancer range %s: only IPv4 is announced", r)
		}
	}
	return Pool{ranges}, nil
}

// has says whether the address is one of the range's.
func (p Pool) has(a netip.Addr) bool {
	return slices.ContainsFunc(p.ranges, func(r netip.Prefix) bool { return r.Contains(a) })
}

// unsupported returns an error where a load balancer of the Service could not do what it asks for.
func unsupported(s *corev1.Service) error {
	if len(s.Spec.IPFamilies) > 0 && !slices.Contains(s.Spec.IPFamilies, corev1.IPv4Protocol) {
		return errors.New("load balancers have IPv4 addresses only, and the service has none")
	}
	for _, port := range s.Spec.Ports {
		if port.Protocol == corev1.ProtocolSCTP {
			return fmt.Errorf("port %d: protocol SCTP is not balanced", port.Port)
		}
	}
	return nil
}

// pick returns the address of a Service: the one that it asks for, else the one that it has, else the first that is free. taken says who has one.
func (p Pool) pick(s *corev1.Service, taken func(netip.Addr) (by string, ok bool)) (netip.Addr, error) {
	if text := s.Spec.LoadBalancerIP; text != "" {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return a, fmt.Errorf("loadBalancerIP %q: %w", text, err)
		}
		if !p.has(a) {
			return a, fmt.Errorf("loadBalancerIP %s is not in the range of load balancers %v", a, p.ranges)
		}
		if by, ok := taken(a); ok {
			return a, fmt.Errorf("loadBalancerIP %s is the service's %s", a, by)
		}
		return a, nil
	}
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(ingress.IP); err == nil && p.has(a) {
			if _, ok := taken(a); !ok {
				return a, nil
			}
		}
	}
	for _, r := range p.ranges {
		for a := r.Masked().Addr(); r.Contains(a); a = a.Next() {
			if _, ok := taken(a); !ok {
				return a, nil
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("no address is left in the range of load balancers %v", p.ranges)
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
