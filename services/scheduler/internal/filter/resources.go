package filter

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
)

// NodeResourcesFit refuses nodes that have not enough left of what the pod
// requests. Extended resources that are ignored do not count; nil ignores none.
func NodeResourcesFit(ignored func(corev1.ResourceName) bool) Filter {
	return Filter{
		Name: "NodeResourcesFit",
		Prepare: func(pod *corev1.Pod, _ cluster.Snapshot) Check {
			wanted := cluster.Requests(pod)
			if ignored != nil {
				maps.DeleteFunc(wanted.Extended, func(name corev1.ResourceName, _ int64) bool { return ignored(name) })
			}
			return fits{wanted}
		},
	}
}

type fits struct{ wanted cluster.Resources }

func (f fits) Check(n *cluster.Node) bool {
	w, a, r := &f.wanted, &n.Allocatable, &n.Requested
	if r.Pods+1 > a.Pods || short(w.MilliCPU, r.MilliCPU, a.MilliCPU) ||
		short(w.Memory, r.Memory, a.Memory) || short(w.EphemeralStorage, r.EphemeralStorage, a.EphemeralStorage) {
		return false
	}
	for name, amount := range w.Extended {
		if short(amount, r.Extended[name], a.Extended[name]) {
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
		if short(amount, r.Extended[name], a.Extended[name]) {
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
		if amount > a.Extended[name] {
			return false
		}
	}
	return true
}

// short reports whether what is wanted exceeds what is left. A pod that wants
// nothing fits even where more is taken than there is.
func short(wanted, taken, there int64) bool { return wanted > 0 && wanted > there-taken }
