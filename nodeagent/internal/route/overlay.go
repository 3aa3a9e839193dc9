package route

import (
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Overlay says which nodes' pods are reached through a tunnel.
type Overlay string

const (
	// OverlayNone has direct routes alone: all nodes are on one network.
	OverlayNone Overlay = "none"
	// OverlayAuto has a tunnel to the nodes that are on none of this node's networks.
	OverlayAuto Overlay = "auto"
	// OverlayVXLAN has a tunnel to every node.
	OverlayVXLAN Overlay = "vxlan"
)

// ParseOverlay reads the name of a kind; "" is none.
func ParseOverlay(text string) (Overlay, error) {
	switch o := Overlay(text); o {
	case "":
		return OverlayNone, nil
	case OverlayNone, OverlayAuto, OverlayVXLAN:
		return o, nil
	}
	return "", fmt.Errorf("overlay %q is none of none, auto and vxlan", text)
}

// Enabled says whether there may be a tunnel.
func (o Overlay) Enabled() bool { return o == OverlayAuto || o == OverlayVXLAN }

// Overhead is what a packet in the tunnel has more: the headers of Ethernet, VXLAN and UDP, and of IP between the nodes.
func Overhead(between netip.Addr) int {
	if between.Is4() {
		return 14 + 8 + 8 + 20
	}
	return 14 + 8 + 8 + 40
}

// Tunnel is this node's end of it: Local is the address that packets of the tunnel come from, and Networks are those that the node is on itself.
type Tunnel struct {
	Overlay  Overlay
	Local    netip.Addr
	Networks []netip.Prefix
}

// through says whether what goes to an address of a node takes the tunnel.
func (t Tunnel) through(node netip.Addr) bool {
	switch t.Overlay {
	case OverlayVXLAN:
		return true
	case OverlayAuto:
		return !slices.ContainsFunc(t.Networks, func(p netip.Prefix) bool { return p.Contains(node) })
	}
	return false
}

// Peer is another node's end of the tunnel. Everything about it follows from its Node object.
type Peer struct {
	MAC     string
	Between netip.Addr // where its packets are sent to
	// Gateways stand for it in routes: its IPv4 address, and the link-local one of its Ethernet address.
	Gateways []netip.Addr
}

func (p Peer) equal(q Peer) bool {
	return p.MAC == q.MAC && p.Between == q.Between && slices.Equal(p.Gateways, q.Gateways)
}

// tunnelMAC is the Ethernet address of a node's end: one that everybody can work out.
func tunnelMAC(node string) net.HardwareAddr {
	sum := sha256.Sum256([]byte("howdah overlay " + node))
	return append(net.HardwareAddr{0x02}, sum[:5]...) // of local scope, no group
}

// linkLocal is the IPv6 address that an Ethernet address makes.
func linkLocal(mac net.HardwareAddr) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5]})
}

// Peers lists the other ends that this node sends to, by their Ethernet addresses, and the routes through them: to the nodes' pods, from this node's own
// address, and, for what this node's pods send, to the nodes themselves. Nobody between the nodes' networks has to know of pods.
//
// Answers of pods to nodes go the same way as what they answer, so that a node may insist on that (rp_filter).
func (t Tunnel) Peers(self string, nodes []*corev1.Node) ([]Peer, []Route) {
	var peers []Peer
	var routes []Route
	if !t.Overlay.Enabled() {
		return nil, nil
	}
	own := map[bool]netip.Addr{}
	for _, node := range nodes {
		if node.Name == self {
			own[true], _ = internalIP(node, true)
			own[false], _ = internalIP(node, false)
		}
	}
	for _, node := range sorted(nodes) {
		between, ok := internalIP(node, t.Local.Is4())
		if node.Name == self || !ok {
			continue
		}
		mac := tunnelMAC(node.Name)
		peer := Peer{MAC: mac.String(), Between: between}
		for _, v4 := range []bool{true, false} {
			address, ok := internalIP(node, v4)
			if !ok || !t.through(address) {
				continue
			}
			gateway := address
			if !v4 {
				gateway = linkLocal(mac)
			}
			peer.Gateways = append(peer.Gateways, gateway)
			routes = append(routes, Route{To: netip.PrefixFrom(address, address.BitLen()), Gateway: gateway, Tunnel: true, Table: podsTable})
			for _, prefix := range podCIDRs(node) {
				if prefix.Addr().Is4() == v4 {
					routes = append(routes, Route{To: prefix, Gateway: gateway, Tunnel: true, Source: own[v4]})
				}
			}
		}
		if len(peer.Gateways) > 0 {
			peers = append(peers, peer)
		}
	}
	return peers, routes
}
