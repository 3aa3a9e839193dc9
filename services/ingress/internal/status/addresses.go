// Package status tells of Ingresses what users ask for: where they are reached, in their status, and what is wrong with them, in events.
package status

import (
	"bytes"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Manager is the field manager of what the ingress controller writes.
const Manager = "howdah-ingress"

// Of returns where Ingresses are reached: at addresses or names that were configured.
func Of(published []string) []networkingv1.IngressLoadBalancerIngress {
	var out []networkingv1.IngressLoadBalancerIngress
	for _, text := range published {
		if _, err := netip.ParseAddr(text); err == nil {
			out = append(out, networkingv1.IngressLoadBalancerIngress{IP: text})
		} else {
			out = append(out, networkingv1.IngressLoadBalancerIngress{Hostname: text})
		}
	}
	return out
}

// OfService returns where Ingresses are reached whose proxy is behind a Service: at its load balancer's addresses and its external ones.
func OfService(s *corev1.Service) []networkingv1.IngressLoadBalancerIngress {
	var out []networkingv1.IngressLoadBalancerIngress
	for _, p := range s.Status.LoadBalancer.Ingress {
		out = append(out, networkingv1.IngressLoadBalancerIngress{IP: p.IP, Hostname: p.Hostname})
	}
	for _, ip := range s.Spec.ExternalIPs {
		out = append(out, networkingv1.IngressLoadBalancerIngress{IP: ip})
	}
	return out
}

// plan returns the addresses that an Ingress's status should have, and whether it has others. The status of one that is not ours is emptied where it is
// what we wrote: its managed fields say so, across restarts and changes of the configuration, and no longer once another controller has written its own.
func plan(i *networkingv1.Ingress, mine bool, addresses []networkingv1.IngressLoadBalancerIngress) ([]networkingv1.IngressLoadBalancerIngress, bool) {
	have := i.Status.LoadBalancer.Ingress
	if !mine {
		return nil, len(have) > 0 && wrote(i)
	}
	if len(addresses) == 0 {
		return nil, len(have) > 0 && wrote(i)
	}
	return addresses, !slices.EqualFunc(have, addresses, func(a, b networkingv1.IngressLoadBalancerIngress) bool {
		return a.IP == b.IP && a.Hostname == b.Hostname && len(a.Ports) == 0
	})
}

// wrote reports whether the addresses in the status are ours.
func wrote(i *networkingv1.Ingress) bool {
	for _, m := range i.ManagedFields {
		if m.Manager == Manager && m.Subresource == "status" && m.FieldsV1 != nil && bytes.Contains(m.FieldsV1.Raw, []byte(`"f:loadBalancer"`)) {
			return true
		}
	}
	return false
}

// OfGateways returns the same addresses as the status of Gateways has them.
func OfGateways(all []networkingv1.IngressLoadBalancerIngress) []gatewayv1.GatewayStatusAddress {
	var out []gatewayv1.GatewayStatusAddress
	for _, a := range all {
		if a.IP != "" {
			out = append(out, gatewayv1.GatewayStatusAddress{Type: ptr.To(gatewayv1.IPAddressType), Value: a.IP})
		}
		if a.Hostname != "" {
			out = append(out, gatewayv1.GatewayStatusAddress{Type: ptr.To(gatewayv1.HostnameAddressType), Value: a.Hostname})
		}
	}
	return out
}
