package bootstrap

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

func TestAstray(t *testing.T) {
	t.Parallel()
	one, two, other := netip.MustParseAddrPort("192.0.2.1:6443"), netip.MustParseAddrPort("192.0.2.2:6443"), netip.MustParseAddrPort("192.0.2.9:6443")
	all := []netip.AddrPort{one, two}
	for _, c := range []struct {
		name string
		to   []netip.AddrPort
		edit func(*corev1.Endpoints, *discoveryv1.EndpointSlice)
		want bool // it leads to gateways
	}{
		{"to all", all, nil, true},
		{"to one: another API server does not see the other answer", all[1:], nil, true},
		{"to somewhere else", []netip.AddrPort{other}, nil, false},
		{"to somewhere else, too", []netip.AddrPort{one, other}, nil, false},
		{"to none", all, func(e *corev1.Endpoints, s *discoveryv1.EndpointSlice) { e.Subsets, s.Endpoints = nil, nil }, false},
		{"by another port", all, func(e *corev1.Endpoints, s *discoveryv1.EndpointSlice) {
			e.Subsets[0].Ports[0].Port, *s.Ports[0].Port = 1, 1
		}, false},
		{"to what is not ready", all, func(e *corev1.Endpoints, s *discoveryv1.EndpointSlice) {
			e.Subsets[0].NotReadyAddresses, e.Subsets[0].Addresses = e.Subsets[0].Addresses, nil
			*s.Endpoints[0].Conditions.Ready = false
		}, false},
		{"to more than there are", all, func(e *corev1.Endpoints, s *discoveryv1.EndpointSlice) {
			e.Subsets = append(e.Subsets, e.Subsets[0])
			s.Endpoints = append(s.Endpoints, s.Endpoints[0])
		}, false},
	} {
		e, s := endpoints(c.to), slice(c.to)
		if c.edit != nil {
			c.edit(e, s)
		}
		if got := leads(e, all); got != c.want {
			t.Errorf("%s: Endpoints are well: %v", c.name, got)
		}
		if got := sliceLeads(s, all); got != c.want {
			t.Errorf("%s: EndpointSlice is well: %v", c.name, got)
		}
	}
}
