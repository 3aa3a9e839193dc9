package lb

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// endpoint is one address of a slice for one port of the service.
type endpoint struct {
	Backend
	ready    bool
	draining bool // serving and terminating
	zones    []string
	nodes    []string
}

// family is the address family of a frontend and its backends.
type family = corev1.IPFamily

func familyOf(a netip.Addr) family {
	if a.Is4() || a.Is4In6() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// serviceOf names the service that a slice has endpoints for; "" where it has none to balance. Slices with the label of headless services
// are for name servers alone, whatever their service has become since.
func serviceOf(s *discoveryv1.EndpointSlice) string {
	if _, headless := s.Labels[corev1.IsHeadlessService]; headless {
		return ""
	}
	return s.Labels[discoveryv1.LabelServiceName]
}

// endpointsOf lists a service port's endpoints of one family, each address once. An endpoint that stands in two
// slices (it moves from one to the other) counts with its better condition.
func endpointsOf(port corev1.ServicePort, fam family, endpointSlices []*discoveryv1.EndpointSlice, node Node) []endpoint {
	seen := map[netip.AddrPort]int{}
	var out []endpoint
	for _, slice := range endpointSlices {
		if string(slice.AddressType) != string(fam) {
			continue
		}
		number := targetPort(slice, port)
		if number == 0 {
			continue
		}
		for _, e := range slice.Endpoints {
			if len(e.Addresses) == 0 {
				continue
			}
			// All addresses of an endpoint are the same endpoint; the first stands for them.
			address, err := netip.ParseAddr(e.Addresses[0])
			if err != nil || familyOf(address) != fam {
				continue
			}
			ep := endpointFrom(e, netip.AddrPortFrom(address.Unmap(), number), node)
			if at, ok := seen[ep.Address]; ok {
				if ep.ready && !out[at].ready || ep.draining && !out[at].ready && !out[at].draining {
					out[at] = ep
				}
				continue
			}
			seen[ep.Address] = len(out)
			out = append(out, ep)
		}
	}
	return out
}

func endpointFrom(e discoveryv1.Endpoint, address netip.AddrPort, node Node) endpoint {
	ready := e.Conditions.Ready == nil || *e.Conditions.Ready
	serving := ready
	if e.Conditions.Serving != nil {
		serving = *e.Conditions.Serving
	}
	terminating := e.Conditions.Terminating != nil && *e.Conditions.Terminating
	ep := endpoint{
		Backend:  Backend{Address: address, Local: e.NodeName != nil && *e.NodeName == node.Name},
		ready:    ready,
		draining: serving && terminating,
	}
	if e.Hints != nil {
		for _, z := range e.Hints.ForZones {
			ep.zones = append(ep.zones, z.Name)
		}
		for _, n := range e.Hints.ForNodes {
			ep.nodes = append(ep.nodes, n.Name)
		}
	}
	return ep
}

// targetPort finds the slice's number for a service port; 0 if it has none.
func targetPort(slice *discoveryv1.EndpointSlice, port corev1.ServicePort) uint16 {
	for _, p := range slice.Ports {
		name, protocol := "", corev1.ProtocolTCP
		if p.Name != nil {
			name = *p.Name
		}
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		if p.Port != nil && *p.Port > 0 && *p.Port <= 65535 && name == port.Name && protocol == protocolOf(port.Protocol) {
			return uint16(*p.Port)
		}
	}
	return 0
}

// rotation picks the backends that get new connections: the ready ones; if there is none, those that terminate
// but still serve. With local set only this node's count. Hints narrow the ready ones down, never to nothing.
func rotation(endpoints []endpoint, local bool, node Node) []Backend {
	var ready []endpoint
	var draining []Backend
	for _, e := range endpoints {
		switch {
		case local && !e.Local:
		case e.ready:
			ready = append(ready, e)
		case e.draining:
			draining = append(draining, e.Backend)
		}
	}
	out := draining
	if len(ready) > 0 {
		if !local {
			ready = hinted(ready, node)
		}
		out = make([]Backend, len(ready))
		for i, e := range ready {
			out[i] = e.Backend
		}
	}
	slices.SortFunc(out, compareBackends)
	return out
}

// hinted follows topology hints if every endpoint has one and some are meant for this node, or else its zone.
func hinted(ready []endpoint, node Node) []endpoint {
	var forNode, forZone []endpoint
	allNodes, allZones := true, node.Zone != ""
	for _, e := range ready {
		allNodes = allNodes && len(e.nodes) > 0
		allZones = allZones && len(e.zones) > 0
		if slices.Contains(e.nodes, node.Name) {
			forNode = append(forNode, e)
		}
		if slices.Contains(e.zones, node.Zone) {
			forZone = append(forZone, e)
		}
	}
	if allNodes && len(forNode) > 0 {
		return forNode
	}
	if allZones && len(forZone) > 0 {
		return forZone
	}
	return ready
}
