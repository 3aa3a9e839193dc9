package layer2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/controllers/internal/cloudnode"
	"howdah.dev/services/controllers/internal/cloudnodelifecycle"
)

const (
	// healthPort is where a node's agent tells of itself; whether anybody listens does not matter.
	healthPort = "10256"
	// patience is longer than a kernel looks for a neighbour (3 s).
	patience = 5 * time.Second
)

// Machines knows nodes by the network that the controllers share with them. A machine that nobody answers for there is switched off; whether it will ever be
// switched on again the network does not tell, so no machine is gone.
type Machines struct {
	// Networks are those that the controllers are on. Nodes elsewhere are not asked for.
	Networks func() ([]netip.Prefix, error)
	// Dial connects; net.Dialer's where nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

var (
	_ cloudnode.Provider          = Machines{}
	_ cloudnodelifecycle.Provider = Machines{}
)

// Instance implements cloudnode.Provider: a node of this network is known by its name, and its agent knows the rest.
func (m Machines) Instance(_ context.Context, n *corev1.Node) (*cloudnode.Instance, error) {
	if _, ok, err := m.address(n); err != nil || !ok {
		return nil, err
	}
	return &cloudnode.Instance{ProviderID: "layer2://" + n.Name}, nil
}

// Machine implements cloudnodelifecycle.Provider.
func (m Machines) Machine(ctx context.Context, n *corev1.Node) (cloudnodelifecycle.Machine, error) {
	address, ok, err := m.address(n)
	if err != nil || !ok {
		return cloudnodelifecycle.Running, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	dial := m.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	conn, err := dial(ctx, "tcp", net.JoinHostPort(address.String(), healthPort))
	if err == nil {
		conn.Close()
	}
	if errors.Is(err, syscall.EHOSTUNREACH) {
		return cloudnodelifecycle.Stopped, nil
	}
	return cloudnodelifecycle.Running, nil
}

// address returns the node's address on a network of the controllers; false where it has none.
func (m Machines) address(n *corev1.Node) (netip.Addr, bool, error) {
	networks, err := m.Networks()
	if err != nil {
		return netip.Addr{}, false, fmt.Errorf("list the machine's networks: %w", err)
	}
	for _, a := range n.Status.Addresses {
		ip, err := netip.ParseAddr(a.Address)
		if err == nil && a.Type == corev1.NodeInternalIP && slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(ip) }) {
			return ip, true, nil
		}
	}
	return netip.Addr{}, false, nil
}

// Networks lists the networks that this machine is on, without loopback.
func Networks() ([]netip.Prefix, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var all []netip.Prefix
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			all = append(all, p.Masked())
		}
	}
	return all, nil
}
