// Package serviceaddress holds Services and the IPAddress objects that reserve their addresses together: it makes those that are
// missing, mends those of another, and removes those that no Service has.
package serviceaddress

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	netutils "k8s.io/utils/net"
)

const (
	manager = "ipallocator.k8s.io"
	// grace is how long an address may have no Service: what reserves it may be under way.
	grace = 60 * time.Second
)

// Repair is what to do about one address of a Service. The zero value is nothing.
type Repair struct {
	// Reason and Message are those of the event that tells of it.
	Reason, Message string
	// Replace is the IPAddress that has to go first; nil: none.
	Replace *networkingv1.IPAddress
	// Create is the one to make; nil: none.
	Create *networkingv1.IPAddress
}

// View is what is known of the cluster.
type View struct {
	Address func(name string) *networkingv1.IPAddress
	Service func(namespace, name string) *corev1.Service
	CIDRs   []*networkingv1.ServiceCIDR
}

// ForService returns the repairs of a Service's addresses.
func (v View) ForService(s *corev1.Service) []Repair {
	if s.Spec.Type == corev1.ServiceTypeExternalName || s.Spec.ClusterIP == corev1.ClusterIPNone || s.DeletionTimestamp != nil {
		return nil
	}
	var all []Repair
	for _, text := range s.Spec.ClusterIPs {
		if r := v.address(s, text); r != (Repair{}) {
			all = append(all, r)
		}
	}
	return all
}

// Stands reports whether a Service is still as it was read. An address that was missing after the Service was read may have gone with it:
// only if the Service is still there is it missing.
func (v View) Stands(s *corev1.Service) bool {
	now := v.Service(s.Namespace, s.Name)
	return now != nil && now.UID == s.UID && now.ResourceVersion == s.ResourceVersion
}

func (v View) address(s *corev1.Service, text string) Repair {
	ip, ok := parse(text)
	if !ok {
		return Repair{Reason: "ClusterIPNotValid", Message: fmt.Sprintf("Cluster IP %s is not a valid IP; please recreate service", text)}
	}
	family := family(ip)
	if !slices.ContainsFunc(v.CIDRs, func(c *networkingv1.ServiceCIDR) bool { return contains(c, ip) }) {
		return Repair{Reason: "ClusterIPOutOfRange", Message: fmt.Sprintf("Cluster IP [%s]: %s is not within any configured Service CIDR; please recreate service", family, text)}
	}
	wanted := Address(ip, s)
	there := v.Address(wanted.Name)
	switch {
	case there == nil:
		return Repair{Reason: "ClusterIPNotAllocated", Message: fmt.Sprintf("Cluster IP [%s]: %s is not allocated; repairing", family, text), Create: wanted}
	case !sameParent(there, wanted):
		if p := there.Spec.ParentRef; ofService(p) {
			if other := v.Service(p.Namespace, p.Name); other != nil && has(other, ip) {
				return Repair{Reason: "ClusterIPAlreadyAllocated", Message: fmt.Sprintf("Cluster IP [%s]:%s was assigned to multiple services; please recreate service", family, text)}
			}
		}
		return Repair{
			Reason: "ClusterIPNotAllocated", Replace: there, Create: wanted,
			Message: fmt.Sprintf("the ClusterIP [%s]: %s for Service %s/%s has a wrong reference; repairing", family, text, s.Namespace, s.Name),
		}
	case !containsAll(there.Labels, wanted.Labels):
		return Repair{
			Reason: "ClusterIPNotAllocated", Replace: there, Create: wanted,
			Message: fmt.Sprintf("the ClusterIP [%s]: %s for Service %s/%s has incorrect labels; repairing", family, text, s.Namespace, s.Name),
		}
	}
	return Repair{}
}

// Unused says why an address is nobody's, and has to go: now, or after a while. No reason: it stays.
func (v View) Unused(a *networkingv1.IPAddress, now time.Time) (reason, message string, after time.Duration) {
	if a.Labels[networkingv1.LabelManagedBy] != manager || a.DeletionTimestamp != nil {
		return "", "", 0
	}
	p := a.Spec.ParentRef
	if !ofService(p) {
		return "IPAddressNotAllocated", fmt.Sprintf("IPAddress %s appears to have been modified, not referencing a Service %v: cleaning up", a.Name, p), 0
	}
	left := max(grace-now.Sub(a.CreationTimestamp.Time), 0)
	s := v.Service(p.Namespace, p.Name)
	if s == nil {
		return "IPAddressNotAllocated", fmt.Sprintf("IPAddress: %s for Service %s/%s appears to have leaked: cleaning up", a.Name, p.Namespace, p.Name), left
	}
	ip, err := netip.ParseAddr(a.Name)
	if err == nil && has(s, ip) {
		return "", "", 0
	}
	return "IPAddressWrongReference", fmt.Sprintf("IPAddress: %s for Service %s/%s has a wrong reference; cleaning up", a.Name, p.Namespace, p.Name), left
}

// Address is the IPAddress that reserves ip for s.
func Address(ip netip.Addr, s *corev1.Service) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip.String(), Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: family(ip), networkingv1.LabelManagedBy: manager,
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: s.Namespace, Name: s.Name}},
	}
}

func family(ip netip.Addr) string {
	if ip.Is6() {
		return "IPv6"
	}
	return "IPv4"
}

func parse(text string) (netip.Addr, bool) {
	ip, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(text))
	return ip.Unmap(), ok
}

func has(s *corev1.Service, ip netip.Addr) bool {
	return slices.ContainsFunc(s.Spec.ClusterIPs, func(text string) bool {
		own, ok := parse(text)
		return ok && own == ip
	})
}

func contains(c *networkingv1.ServiceCIDR, ip netip.Addr) bool {
	return slices.ContainsFunc(c.Spec.CIDRs, func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && p.Contains(ip)
	})
}

func ofService(p *networkingv1.ParentReference) bool {
	return p != nil && p.Group == "" && p.Resource == "services"
}

func sameParent(a, b *networkingv1.IPAddress) bool {
	return a.Spec.ParentRef != nil && *a.Spec.ParentRef == *b.Spec.ParentRef
}

func containsAll(labels, wanted map[string]string) bool {
	kept := maps.Clone(labels)
	maps.DeleteFunc(kept, func(k, v string) bool { _, ok := wanted[k]; return !ok })
	return maps.Equal(kept, wanted)
}
