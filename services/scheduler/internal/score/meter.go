package score

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
)

// meter reads one resource, of which a pod wants so much.
type meter struct {
	what   what
	name   corev1.ResourceName // where what is extended
	weight int64
	wanted int64
}

// what tells resources apart without comparing names for each node.
type what int

const (
	extended what = iota
	cpu
	memory
	ephemeralStorage
)

// metersOf returns meters for the resources. An extended one that the pod does not want does not count, as in Kubernetes.
func metersOf(resources []Resource, wanted cluster.Resources) []meter {
	meters := make([]meter, 0, len(resources))
	for _, r := range resources {
		m := meter{name: r.Name, weight: r.Weight}
		switch r.Name {
		case corev1.ResourceCPU:
			m.what = cpu
		case corev1.ResourceMemory:
			m.what = memory
		case corev1.ResourceEphemeralStorage:
			m.what = ephemeralStorage
		}
		if m.wanted = m.of(&wanted); m.what != extended || m.wanted > 0 {
			meters = append(meters, m)
		}
	}
	return meters
}

// areCPUAndMemory reports whether these two alone are read.
func areCPUAndMemory(meters []meter) bool {
	return len(meters) == 2 && meters[0].what == cpu && meters[1].what == memory
}

func (m *meter) of(r *cluster.Resources) int64 {
	switch m.what {
	case cpu:
		return r.MilliCPU
	case memory:
		return r.Memory
	case ephemeralStorage:
		return r.EphemeralStorage
	}
	return r.Extended[m.name]
}

// shareBefore is the same without this one.
func (m *meter) shareBefore(n *cluster.Node) float64 {
	there := m.of(&n.Allocatable)
	if there <= 0 {
		return -1
	}
	return share(m.of(&n.Requested), there)
}

// share is to what part, at most 1, a node would be used by the requests of its pods and this one; below 0 where it has nothing of it.
func (m *meter) share(n *cluster.Node) float64 {
	there := m.of(&n.Allocatable)
	if there <= 0 {
		return -1
	}
	return share(m.of(&n.Requested)+m.wanted, there)
}
