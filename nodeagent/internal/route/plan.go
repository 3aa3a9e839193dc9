// Package route keeps the node's routes to the other nodes' pods, fences the cluster's address ranges off from the
// outside, and masquerades what pods send beyond the cluster.
package route

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Route is one route of ours: to a node's pods by its address, or, without a gateway, an unreachable one.
type Route struct {
	To      netip.Prefix
	Gateway netip.Addr
	// Tunnel says that the gateway is at the other end of the tunnel, and Source is this node's address in it.
	Tunnel bool
	Source netip.Addr
	// Table is the kernel's: podsTable, or 0 for the main one.
	Table int
}

// podsTable has the routes for what this node's pods send alone.
const podsTable = 201

// place is what one route of ours can stand for.
type place struct {
	to    netip.Prefix
	table int
}

func (r Route) place() place { return place{r.To, r.Table} }

// Unreachable says that packets to To are answered with an error at once.
func (r Route) Unreachable() bool { return !r.Gateway.IsValid() }

func (r Route) String() string {
	if r.Unreachable() {
		return fmt.Sprintf("%s unreachable", r.To)
	}
	text := fmt.Sprintf("%s via %s", r.To, r.Gateway)
	if r.Tunnel {
		text += " through the tunnel"
	}
	if r.Source.IsValid() {
		text += fmt.Sprintf(" from %s", r.Source)
	}
	if r.Table != 0 {
		text += " for pods"
	}
	return text
}

// Ranges are the cluster's address ranges: all nodes' pod CIDRs lie in Pods.
type Ranges struct {
	Pods     []netip.Prefix
	Services []netip.Prefix
	// Balancers are those of load balancers: what comes for one is balanced before it is routed, and what is not balanced goes nowhere.
	Balancers []netip.Prefix
}

// Desired lists the routes that a node needs, sorted.
//
// An address of the cluster that nobody has is unreachable at once, on every node: no packet for it leaves for the
// network outside, where anything might answer. Longer prefixes win, so the nodes' own routes and the pods' stand. Where a route through the tunnel leads,
// no direct one does.
func Desired(self string, nodes []*corev1.Node, ranges Ranges, tunnelled ...Route) []Route {
	seen := map[place]bool{}
	var out []Route
	add := func(r Route) {
		if !seen[r.place()] {
			seen[r.place()] = true
			out = append(out, r)
		}
	}
	for _, r := range tunnelled {
		add(r)
	}
	for _, node := range sorted(nodes) {
		if node.Name == self {
			continue
		}
		for _, prefix := range podCIDRs(node) {
			if gateway, ok := internalIP(node, prefix.Addr().Is4()); ok {
				add(Route{To: prefix, Gateway: gateway})
			}
		}
	}
	for _, p := range slices.Concat(ranges.Pods, ranges.Services, ranges.Balancers) {
		add(Route{To: p.Masked()})
	}
	// A single node may own the whole range: then its unassigned addresses have to be fenced by its own prefix.
	for _, node := range nodes {
		if node.Name == self {
			for _, prefix := range podCIDRs(node) {
				add(Route{To: prefix})
			}
		}
	}
	slices.SortFunc(out, compare)
	return out
}

// Peers lists the nodes' own addresses: pods talk to them with their own address, as nodes know the way back.
func Peers(nodes []*corev1.Node) []netip.Addr {
	var out []netip.Addr
	for _, node := range nodes {
		for _, v4 := range []bool{true, false} {
			if a, ok := internalIP(node, v4); ok {
				out = append(out, a)
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// Plan says what to change: put adds or replaces.
type Plan struct {
	Put  []Route
	Drop []Route
}

// Compare finds the difference between the routes of ours that exist and those that should.
func Compare(have, want []Route) Plan {
	var p Plan
	wanted := map[place]bool{}
	for _, r := range want {
		wanted[r.place()] = true
		if !slices.Contains(have, r) {
			p.Put = append(p.Put, r)
		}
	}
	for _, r := range have {
		// A route to the same place by another way is replaced, not dropped: there is always one.
		if !wanted[r.place()] {
			p.Drop = append(p.Drop, r)
		}
	}
	return p
}

func compare(a, b Route) int {
	return cmp.Or(a.To.Addr().Compare(b.To.Addr()), cmp.Compare(a.To.Bits(), b.To.Bits()), cmp.Compare(a.Table, b.Table))
}

func sorted(nodes []*corev1.Node) []*corev1.Node {
	return slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
}

func podCIDRs(node *corev1.Node) []netip.Prefix {
	list := node.Spec.PodCIDRs
	if len(list) == 0 && node.Spec.PodCIDR != "" {
		list = []string{node.Spec.PodCIDR}
	}
	var out []netip.Prefix
	for _, s := range list {
		if p, err := netip.ParsePrefix(s); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

func internalIP(node *corev1.Node, v4 bool) (netip.Addr, bool) {
	for _, a := range node.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP && ip.Unmap().Is4() == v4 {
			return ip.Unmap(), true
		}
	}
	return netip.Addr{}, false
}
