package lb

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// labelProxyName marks services that something else balances.
const labelProxyName = "service.kubernetes.io/service-proxy-name"

// defaultAffinity is what Kubernetes uses when sessionAffinityConfig is not given.
const defaultAffinity = 10800 * time.Second

// Desired computes the table of all services, seen from one node. Where two services claim the same frontend
// (external addresses can clash), the older one has it. Services that cannot be balanced add a problem, in words.
func Desired(services []*corev1.Service, endpointSlices []*discoveryv1.EndpointSlice, node Node) (Table, []string) {
	byService := map[string][]*discoveryv1.EndpointSlice{}
	for _, s := range endpointSlices {
		key := s.Namespace + "/" + serviceOf(s)
		byService[key] = append(byService[key], s)
	}
	out, problems := Table{}, []string(nil)
	claims := newClaims()
	for _, svc := range services {
		table, p := serviceTable(svc, byService[svc.Namespace+"/"+svc.Name], node)
		problems = append(problems, p...)
		for _, f := range claims.set(owner{kind: kindService, namespace: svc.Namespace, name: svc.Name}, svc.CreationTimestamp.Time, table) {
			out[f], _ = claims.winner(f)
		}
	}
	return out, problems
}

// serviceTable computes the frontends of one service.
func serviceTable(svc *corev1.Service, endpointSlices []*discoveryv1.EndpointSlice, node Node) (Table, []string) {
	out := Table{}
	var problems []string
	if _, other := svc.Labels[labelProxyName]; other {
		return out, nil
	}
	if svc.Spec.Type == corev1.ServiceTypeExternalName || svc.Spec.ClusterIP == corev1.ClusterIPNone || svc.Spec.ClusterIP == "" {
		return out, nil
	}
	for _, port := range svc.Spec.Ports {
		protocol := protocolOf(port.Protocol)
		if !balanceable(protocol) {
			problems = append(problems, fmt.Sprintf("service %s/%s port %d: protocol %s is not balanced", svc.Namespace, svc.Name, port.Port, protocol))
			continue
		}
		for _, ip := range clusterIPs(svc) {
			addPort(out, svc, port, ip, endpointSlices, node)
		}
	}
	return out, problems
}

// addPort adds the frontends of one port and one family, that of the cluster address ip.
func addPort(out Table, svc *corev1.Service, port corev1.ServicePort, ip netip.Addr, endpointSlices []*discoveryv1.EndpointSlice, node Node) {
	fam := familyOf(ip)
	endpoints := endpointsOf(port, fam, endpointSlices, node)
	everywhere, here := rotation(endpoints, false, node), rotation(endpoints, true, node)

	inside := everywhere
	if insideOnly(svc) {
		inside = here
	}
	outside := everywhere
	if localOnly(svc) {
		outside = here
	}
	entry := Entry{
		Service:  fmt.Sprintf("%s/%s:%s", svc.Namespace, svc.Name, portName(port)),
		Affinity: affinityOf(svc),
	}
	put := func(address netip.Addr, number int32, scope Scope, backends []Backend, sources []netip.Prefix) {
		e := entry
		e.Backends, e.Sources = backends, sources
		out[Frontend{Address: address, Port: uint16(number), Protocol: protocolOf(port.Protocol), Scope: scope}] = e
	}

	put(ip, port.Port, Socket, inside, nil)
	// The external policy is for traffic from outside. Pods and the host that dial an external address, or their own
	// node, are inside, and get any backend. Another node's address means that node where the policy is Local: the
	// packet goes there, and comes to it from outside.
	if port.NodePort != 0 {
		near := AnyNode
		if localOnly(svc) {
			near = ThisNode
		}
		put(unspecified(fam), port.NodePort, Socket|near, everywhere, nil)
		put(unspecified(fam), port.NodePort, Outside|AnyNode, outside, nil)
	}
	for _, s := range svc.Spec.ExternalIPs {
		if a, err := netip.ParseAddr(s); err == nil && familyOf(a) == fam {
			put(a.Unmap(), port.Port, Socket, everywhere, nil)
			put(a.Unmap(), port.Port, Outside, outside, nil)
		}
	}
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	sources := sourceRanges(svc, fam)
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		if ingress.IPMode != nil && *ingress.IPMode == corev1.LoadBalancerIPModeProxy {
			continue // the balancer must see the traffic itself
		}
		if a, err := netip.ParseAddr(ingress.IP); err == nil && familyOf(a) == fam {
			put(a.Unmap(), port.Port, Socket, everywhere, nil)
			put(a.Unmap(), port.Port, Outside, outside, sources)
		}
	}
}

// localOnly says whether traffic from outside stays on the node that it comes to.
func localOnly(svc *corev1.Service) bool {
	return svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// insideOnly says whether traffic from the cluster stays on the node that it comes from.
func insideOnly(svc *corev1.Service) bool {
	p := svc.Spec.InternalTrafficPolicy
	return p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal
}

func clusterIPs(svc *corev1.Service) []netip.Addr {
	list := svc.Spec.ClusterIPs
	if len(list) == 0 {
		list = []string{svc.Spec.ClusterIP}
	}
	var out []netip.Addr
	for _, s := range list {
		if a, err := netip.ParseAddr(s); err == nil {
			out = append(out, a.Unmap())
		}
	}
	return out
}

func affinityOf(svc *corev1.Service) time.Duration {
	if svc.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	if c := svc.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		return time.Duration(*c.ClientIP.TimeoutSeconds) * time.Second
	}
	return defaultAffinity
}

// sourceRanges are the service's allowed sources of one family. A list that has none of the family allows nobody
// of it: an unspecified /128 or /32 stands for that.
func sourceRanges(svc *corev1.Service, fam family) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range svc.Spec.LoadBalancerSourceRanges {
		if p, err := netip.ParsePrefix(s); err == nil && familyOf(p.Addr()) == fam {
			out = append(out, p.Masked())
		}
	}
	if len(out) == 0 && len(svc.Spec.LoadBalancerSourceRanges) > 0 {
		none := unspecified(fam)
		out = append(out, netip.PrefixFrom(none, none.BitLen()))
	}
	return out
}

func protocolOf(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}

func portName(p corev1.ServicePort) string {
	if p.Name != "" {
		return p.Name
	}
	return fmt.Sprint(p.Port)
}

func unspecified(fam family) netip.Addr {
	if fam == corev1.IPv4Protocol {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}
