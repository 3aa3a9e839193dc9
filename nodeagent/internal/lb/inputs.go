package lb

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"howdah.dev/nodeagent/bpf"
)

// inputs are the objects that the balancer was told of. It only reads them.
type inputs struct {
	node     Node
	services map[owner]*corev1.Service
	slices   map[owner]map[string]*discoveryv1.EndpointSlice // by service, then by slice name
	sliceOf  map[string]owner                                // the service of a slice, by namespace/name
	pods     map[owner]*corev1.Pod
	nodes    map[string]*corev1.Node
}

func newInputs(node Node) *inputs {
	return &inputs{
		node:     node,
		services: map[owner]*corev1.Service{},
		slices:   map[owner]map[string]*discoveryv1.EndpointSlice{},
		sliceOf:  map[string]owner{},
		pods:     map[owner]*corev1.Pod{},
		nodes:    map[string]*corev1.Node{},
	}
}

func serviceOwner(namespace, name string) owner {
	return owner{kind: kindService, namespace: namespace, name: name}
}

func sliceOwner(s *discoveryv1.EndpointSlice) owner {
	return serviceOwner(s.Namespace, serviceOf(s))
}

// update takes an object in (or out, if gone) and names the owners whose tables it changes.
func (in *inputs) update(obj any, gone bool) []owner {
	switch o := obj.(type) {
	case *corev1.Service:
		key := serviceOwner(o.Namespace, o.Name)
		put(in.services, key, o, gone)
		return []owner{key}
	case *discoveryv1.EndpointSlice:
		return in.updateSlice(o, gone)
	case *corev1.Pod:
		key := owner{kind: kindPod, namespace: o.Namespace, name: o.Name}
		if o.Spec.NodeName != in.node.Name || len(hostPorts(o)) == 0 {
			return nil
		}
		put(in.pods, key, o, gone)
		return []owner{key}
	case *corev1.Node:
		put(in.nodes, o.Name, o, gone)
		if o.Name == in.node.Name && !gone && o.Labels[corev1.LabelTopologyZone] != in.node.Zone {
			in.node.Zone = o.Labels[corev1.LabelTopologyZone]
			return []owner{allOwners}
		}
		return []owner{nodeAddresses}
	}
	return nil
}

// updateSlice moves a slice from the service that it belonged to, if any, to the one that its label names.
func (in *inputs) updateSlice(o *discoveryv1.EndpointSlice, gone bool) []owner {
	var changed []owner
	id, key := o.Namespace+"/"+o.Name, sliceOwner(o)
	if old, ok := in.sliceOf[id]; ok && (gone || old != key) {
		delete(in.slices[old], o.Name)
		if len(in.slices[old]) == 0 {
			delete(in.slices, old)
		}
		delete(in.sliceOf, id)
		changed = append(changed, old)
	}
	if gone || key.name == "" {
		return changed
	}
	if in.slices[key] == nil {
		in.slices[key] = map[string]*discoveryv1.EndpointSlice{}
	}
	in.slices[key][o.Name], in.sliceOf[id] = o, key
	return append(changed, key)
}

// Two owners that own no frontends: every table, and the list of node addresses.
var (
	allOwners     = owner{kind: "all"}
	nodeAddresses = owner{kind: "Node"}
)

func put[K comparable, V any](m map[K]V, key K, value V, gone bool) {
	if gone {
		delete(m, key)
		return
	}
	m[key] = value
}

// table computes an owner's table, and since when it claims what is in it.
func (in *inputs) table(o owner) (Table, time.Time, []string) {
	switch o.kind {
	case kindService:
		svc := in.services[o]
		if svc == nil {
			return nil, time.Time{}, nil
		}
		t, problems := serviceTable(svc, in.slicesOf(svc), in.node)
		return t, svc.CreationTimestamp.Time, problems
	case kindPod:
		pod := in.pods[o]
		if pod == nil {
			return nil, time.Time{}, nil
		}
		t, problems := hostPortTable(pod)
		return t, pod.CreationTimestamp.Time, problems
	}
	return nil, time.Time{}, nil
}

// addresses computes where NodePorts answer: local are this machine's own addresses.
func (in *inputs) addresses(local []netip.Addr) map[bpf.LBAddress]uint8 {
	out := map[bpf.LBAddress]uint8{}
	for name, node := range in.nodes {
		for _, a := range node.Status.Addresses {
			ip, err := netip.ParseAddr(a.Address)
			if a.Type != corev1.NodeInternalIP || err != nil {
				continue
			}
			role := uint8(roleOther)
			if name == in.node.Name {
				role = roleSelf
			}
			out[bpf.Address(ip)] = role
		}
	}
	for _, ip := range local {
		out[bpf.Address(ip)] = roleSelf
	}
	return out
}

// owners lists everybody who has a table.
func (in *inputs) owners() []owner {
	out := slices.Collect(maps.Keys(in.services))
	return append(out, slices.Collect(maps.Keys(in.pods))...)
}

func (in *inputs) slicesOf(svc *corev1.Service) []*discoveryv1.EndpointSlice {
	return slices.Collect(maps.Values(in.slices[serviceOwner(svc.Namespace, svc.Name)]))
}
