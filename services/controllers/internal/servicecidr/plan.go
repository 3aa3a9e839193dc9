// Package servicecidr keeps ServiceCIDRs: it says which are ready, and lets one go only when no Service has an address that
// no other range has.
package servicecidr

import (
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Finalizer holds a ServiceCIDR while its addresses are in use.
	Finalizer = "networking.k8s.io/service-cidr-finalizer"
	// grace is how long a deletion waits at least: allocations that began before it may still be under way.
	grace = 10 * time.Second
	// manager is the value of the label of addresses that are Services' own.
	manager = "ipallocator.k8s.io"
)

// Plan is what to do about one ServiceCIDR.
type Plan struct {
	// Finalizers are those that it is to have; Changed says that they differ.
	Finalizers []string
	Changed    bool
	// Condition is to be set; nil changes nothing.
	Condition *metav1.Condition
	// After is when to look again; 0 is not before something changes.
	After time.Duration
}

// Decide plans for a ServiceCIDR beside all of them and the addresses that are reserved.
func Decide(c *networkingv1.ServiceCIDR, all []*networkingv1.ServiceCIDR, addresses []*networkingv1.IPAddress, now time.Time) Plan {
	held := slices.Contains(c.Finalizers, Finalizer)
	if c.DeletionTimestamp == nil {
		p := Plan{Condition: condition(c, metav1.ConditionTrue, "", "Kubernetes Service CIDR is ready")}
		if !held {
			p.Finalizers, p.Changed = append(slices.Clone(c.Finalizers), Finalizer), true
		}
		return p
	}
	if !held {
		return Plan{}
	}
	if needed(c, all, addresses) {
		return Plan{Condition: condition(c, metav1.ConditionFalse, networkingv1.ServiceCIDRReasonTerminating,
			"There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR")}
	}
	if left := grace - now.Sub(c.DeletionTimestamp.Time); left > 0 {
		return Plan{After: left}
	}
	return Plan{Finalizers: slices.DeleteFunc(slices.Clone(c.Finalizers), func(f string) bool { return f == Finalizer }), Changed: true}
}

// condition is the one that c does not have yet; nil if it has.
func condition(c *networkingv1.ServiceCIDR, status metav1.ConditionStatus, reason, message string) *metav1.Condition {
	if old := meta.FindStatusCondition(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady); old != nil &&
		old.Status == status && old.Reason == reason && old.Message == message {
		return nil
	}
	return &metav1.Condition{Type: networkingv1.ServiceCIDRConditionReady, Status: status, Reason: reason, Message: message}
}

// needed reports whether a Service has an address of c that is in no other range that stays.
func needed(c *networkingv1.ServiceCIDR, all []*networkingv1.ServiceCIDR, addresses []*networkingv1.IPAddress) bool {
	return slices.ContainsFunc(addresses, func(a *networkingv1.IPAddress) bool {
		ip, err := netip.ParseAddr(a.Name)
		if err != nil || a.Labels[networkingv1.LabelManagedBy] != manager || !contains(c, ip) {
			return false
		}
		return !slices.ContainsFunc(all, func(other *networkingv1.ServiceCIDR) bool {
			return other.Name != c.Name && other.DeletionTimestamp == nil && contains(other, ip)
		})
	})
}

func contains(c *networkingv1.ServiceCIDR, ip netip.Addr) bool {
	return slices.ContainsFunc(c.Spec.CIDRs, func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && p.Contains(ip)
	})
}
