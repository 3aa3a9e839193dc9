// Package lb balances the connections to Kubernetes Services in eBPF.
//
// Services, EndpointSlices, Nodes and the node's own Pods go in (Balancer.Update, Balancer.Delete); Desired turns
// them into a Table, plan compares the table with what the kernel has, and apply writes the difference in an
// order that no connect() can see half done. The programs are in howdah.dev/nodeagent/bpf.
package lb

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Scope says who asks for a frontend and what its address stands for. One of Socket and Outside, plus at most
// one of AnyNode and ThisNode. The values are those of bpf/maps.h.
type Scope uint8

const (
	// Socket is a process of this node: a pod's or the host's.
	Socket Scope = 0
	// Outside is a packet that came in by the wire.
	Outside Scope = 1
	// AnyNode matches any address of any node (NodePort); the frontend's address is unspecified.
	AnyNode Scope = 2
	// ThisNode matches any address of this node (hostPort); the frontend's address is unspecified.
	ThisNode Scope = 4
)

// Frontend is what a client dials. An unspecified address (0.0.0.0 or ::) carries only the family.
type Frontend struct {
	Address  netip.Addr
	Port     uint16
	Protocol corev1.Protocol
	Scope    Scope
}

// Backend is one endpoint.
type Backend struct {
	Address netip.AddrPort
	// Local says that it runs on this node.
	Local bool
}

// Entry is what stands behind a frontend.
type Entry struct {
	// Service names the service port: "namespace/name:port". It is the key of session affinity.
	Service string
	// Backends in rotation, sorted, without duplicates. None: connections are refused.
	Backends []Backend
	// Affinity is the time for which a client keeps its backend; 0 = none.
	Affinity time.Duration
	// Sources may use the frontend from outside; none = everybody.
	Sources []netip.Prefix
}

// Table is the desired state: every frontend of the cluster as seen from one node.
type Table map[Frontend]Entry

// Node is the point of view of a table.
type Node struct {
	Name string
	// Zone is the node's topology.kubernetes.io/zone; hints for zones are followed if it is not empty.
	Zone string
}

func (s Scope) String() string {
	name := "socket"
	if s&Outside != 0 {
		name = "outside"
	}
	switch {
	case s&AnyNode != 0:
		return name + "+any-node"
	case s&ThisNode != 0:
		return name + "+this-node"
	}
	return name
}

func (f Frontend) String() string {
	return fmt.Sprintf("%s %s %s", netip.AddrPortFrom(f.Address, f.Port), f.Protocol, f.Scope)
}

func (b Backend) String() string {
	if b.Local {
		return b.Address.String() + " local"
	}
	return b.Address.String()
}

func compareBackends(a, b Backend) int {
	return a.Address.Compare(b.Address)
}

func compareFrontends(a, b Frontend) int {
	return cmp.Or(
		a.Address.Compare(b.Address),
		cmp.Compare(a.Port, b.Port),
		cmp.Compare(a.Protocol, b.Protocol),
		cmp.Compare(a.Scope, b.Scope),
	)
}

// String dumps the table, one frontend a paragraph, in order.
func (t Table) String() string {
	keys := make([]Frontend, 0, len(t))
	for f := range t {
		keys = append(keys, f)
	}
	slices.SortFunc(keys, compareFrontends)
	var out strings.Builder
	for _, f := range keys {
		e := t[f]
		fmt.Fprintf(&out, "%s = %s", f, e.Service)
		if e.Affinity > 0 {
			fmt.Fprintf(&out, " affinity=%s", e.Affinity)
		}
		if len(e.Sources) > 0 {
			fmt.Fprintf(&out, " sources=%v", e.Sources)
		}
		out.WriteByte('\n')
		for _, b := range e.Backends {
			fmt.Fprintf(&out, "  -> %s\n", b)
		}
	}
	return out.String()
}
