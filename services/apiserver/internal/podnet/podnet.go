// Package podnet connects the apiserver to what listens in pods: webhooks and extension API servers behind Services.
//
// The control plane has no routes to pods, and needs none: a connection goes through the agent of the endpoint's node, over
// the same authenticated stream that carries exec and logs. What stands on no node is dialled directly.
package podnet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/object"
	"howdah.dev/services/apiserver/internal/registry"
)

// Objects reads Services, EndpointSlices and Nodes.
type Objects interface {
	Get(ctx context.Context, group, resource, namespace, name string) (registry.Object, error)
	List(ctx context.Context, group, resource, namespace string) []registry.Object
}

// Dialer makes connections to Services.
type Dialer struct {
	Objects Objects
	// Nodes connects to the node agent at host:port; nil dials every address directly.
	Nodes func(ctx context.Context, address string) (*grpc.ClientConn, error)
	// Direct dials what is not reached through a node; nil is net.Dialer's.
	Direct func(ctx context.Context, network, address string) (net.Conn, error)
}

// Backend is where a connection leads.
type Backend struct {
	// Address is host:port.
	Address string
	// Node is the endpoint's node; empty where it is on none.
	Node string
}

// Service connects to a port of a Service, to one of its ready endpoints; the others are tried where one cannot be reached.
func (d *Dialer) Service(ctx context.Context, namespace, name string, port int32) (net.Conn, error) {
	backends, err := d.Backends(ctx, namespace, name, port)
	if err != nil {
		return nil, err
	}
	var first error
	for _, b := range backends[:min(len(backends), maxTries)] {
		conn, err := d.Dial(ctx, b)
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

// maxTries is how many endpoints of a Service are tried for one connection.
const maxTries = 3

// Backends returns the ready endpoints of a Service's port in random order. It fails where there is none.
func (d *Dialer) Backends(ctx context.Context, namespace, name string, port int32) ([]Backend, error) {
	obj, err := d.Objects.Get(ctx, "", "services", namespace, name)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("service %q not found", name)
		}
		return nil, err
	}
	service, ok := obj.(*corev1.Service)
	if !ok {
		return nil, fmt.Errorf("service %q is a %T", name, obj)
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return []Backend{{Address: net.JoinHostPort(service.Spec.ExternalName, strconv.Itoa(int(port)))}}, nil
	}
	wanted := portOf(service, port)
	if wanted == nil {
		return nil, fmt.Errorf("no service port %d found for service %q", port, name)
	}
	backends := endpoints(d.Objects.List(ctx, "discovery.k8s.io", "endpointslices", namespace), name, wanted)
	if len(backends) == 0 {
		return nil, fmt.Errorf("no endpoints available for service %q", name)
	}
	rand.Shuffle(len(backends), func(i, j int) { backends[i], backends[j] = backends[j], backends[i] })
	return backends, nil
}

func portOf(service *corev1.Service, port int32) *corev1.ServicePort {
	for i := range service.Spec.Ports {
		p := &service.Spec.Ports[i]
		if p.Port == port && (p.Protocol == corev1.ProtocolTCP || p.Protocol == "") {
			return p
		}
	}
	return nil
}

// endpoints returns the ready addresses of a Service's port in its slices.
func endpoints(slices []registry.Object, service string, port *corev1.ServicePort) []Backend {
	var backends []Backend
	for _, obj := range slices {
		slice, ok := obj.(*discoveryv1.EndpointSlice)
		if !ok || slice.Labels[discoveryv1.LabelServiceName] != service || slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		number := slicePort(slice, port.Name)
		if number == 0 {
			continue
		}
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			if e.Conditions.Ready != nil && !*e.Conditions.Ready || len(e.Addresses) == 0 {
				continue
			}
			b := Backend{Address: net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(number)))}
			if e.NodeName != nil {
				b.Node = *e.NodeName
			}
			backends = append(backends, b)
		}
	}
	return backends
}

func slicePort(slice *discoveryv1.EndpointSlice, name string) int32 {
	for _, p := range slice.Ports {
		if p.Port == nil || p.Protocol != nil && *p.Protocol != corev1.ProtocolTCP {
			continue
		}
		if p.Name == nil && name == "" || p.Name != nil && *p.Name == name {
			return *p.Port
		}
	}
	return 0
}

// Dial connects to a backend.
func (d *Dialer) Dial(ctx context.Context, b Backend) (net.Conn, error) {
	if b.Node == "" || d.Nodes == nil {
		if d.Direct != nil {
			return d.Direct(ctx, "tcp", b.Address)
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", b.Address)
	}
	agent, err := d.agent(ctx, b.Node)
	if err != nil {
		return nil, err
	}
	conn, err := d.Nodes(ctx, agent)
	if err != nil {
		return nil, fmt.Errorf("dial the agent of node %s: %w", b.Node, err)
	}
	return tunnel(ctx, conn, b)
}

// agent is where a node's agent listens.
func (d *Dialer) agent(ctx context.Context, name string) (string, error) {
	obj, err := d.Objects.Get(ctx, "", "nodes", "", name)
	if err != nil {
		return "", fmt.Errorf("node of an endpoint: %w", err)
	}
	node, ok := obj.(*corev1.Node)
	if !ok {
		return "", fmt.Errorf("node %s is a %T", name, obj)
	}
	port := object.AgentPort(node)
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP && port > 0 {
			return net.JoinHostPort(a.Address, strconv.Itoa(int(port))), nil
		}
	}
	return "", errors.New("node " + name + " has told no address of its agent")
}
