package filter

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
)

// NodeResourcesFit refuses nodes that have not enough left of what the pod
// requests. Extended resources that are ignored do not count; nil ignores none. Nor do those that a DeviceClass names, where a node has none of its
// own: DynamicResources looks for devices then.
func NodeResourcesFit(ignored func(corev1.ResourceName) bool) Filter {
	return Filter{
		Name: "NodeResourcesFit",
		Of:   OnRoom,
		Prepare: func(pod *corev1.Pod, snapshot cluster.Snapshot) Check {
			wanted := cluster.Requests(pod)
			if ignored != nil {
				maps.DeleteFunc(wanted.Extended, func(name corev1.ResourceName, _ int64) bool { return ignored(name) })
			}
			if len(wanted.Extended) == 0 {
				return fits{wanted: wanted}
			}
			return fits{wanted, func(name corev1.ResourceName) bool { return snapshot.Devices.Backed(name) != "" }}
		},
	}
}

type fits struct {
	wanted cluster.Resources
	// backed reports whether devices are meant by an extended resource; nil where none is wanted.
	backed func(corev1.ResourceName) bool
}

// devices reports whether an extended resource is to be had of a node as devices.
func (f fits) devices(n *cluster.Node, name corev1.ResourceName) bool {
	return n.Allocatable.Extended[name] == 0 && f.backed(name)
}

func (f fits) Check(n *cluster.Node) bool {
	w, a, r := &f.wanted, &n.Allocatable, &n.Requested
	if r.Pods+1 > a.Pods || short(w.MilliCPU, r.MilliCPU, a.MilliCPU) ||
		short(w.Memory, r.Memory, a.Memory) || short(w.EphemeralStorage, r.EphemeralStorage, a.EphemeralStorage) {
		return false
	}
	for name, amount := range w.Extended {
		if short(amount, r.Extended[name], a.Extended[name]) && !f.devices(n, name) {
			return false
		}
	}
	return true
}

func (f fits) Explain(n *cluster.Node) []string {
	w, a, r := &f.wanted, &n.Allocatable, &n.Requested
	var reasons []string
	if r.Pods+1 > a.Pods {
		reasons = append(reasons, "Too many pods")
	}
	if short(w.MilliCPU, r.MilliCPU, a.MilliCPU) {
		reasons = append(reasons, "Insufficient cpu")
	}
	if short(w.Memory, r.Memory, a.Memory) {
		reasons = append(reasons, "Insufficient memory")
	}
	if short(w.EphemeralStorage, r.EphemeralStorage, a.EphemeralStorage) {
		reasons = append(reasons, "Insufficient ephemeral-storage")
	}
	var extended []string
	for name, amount := range w.Extended {
		if short(amount, r.Extended[name], a.Extended[name]) && !f.devices(n, name) {
			extended = append(extended, "Insufficient "+string(name))
		}
	}
	slices.Sort(extended)
	return append(reasons, extended...)
}

// Resolvable is false where the pod would not fit on the empty node.
func (f fits) Resolvable(n *cluster.Node) bool {
	w, a := &f.wanted, &n.Allocatable
	if w.MilliCPU > a.MilliCPU || w.Memory > a.Memory || w.EphemeralStorage > a.EphemeralStorage {
		return false
	}
	for name, amount := range w.Extended {
		if amount > a.Extended[name] && !f.devices(n, name) {
			return false
		}
	}
	return true
}

// short reports whether what is wanted exceeds what is left. A pod that wants
// nothing fits even where more is taken than there is.
func short(wanted, taken, there int64) bool { return wanted > 0 && wanted > there-taken }
