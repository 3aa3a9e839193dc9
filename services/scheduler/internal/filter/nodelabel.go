package filter

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
)

// NodeLabel refuses nodes that lack one of some labels, or have one of others, whatever their values. It is what CheckNodeLabelPresence was.
func NodeLabel(present, absent []string) Filter {
	return Filter{
		Name: "NodeLabel",
		Of:   OnNode,
		Prepare: func(*corev1.Pod, cluster.Snapshot) Check {
			if len(present)+len(absent) == 0 {
				return nil
			}
			return check{
				passes: func(n *cluster.Node) bool {
					return has(n, present) == len(present) && has(n, absent) == 0
				},
				reason: "node(s) didn't have the requested labels",
			}
		},
	}
}

// has counts the labels that a node has.
func has(n *cluster.Node, labels []string) (count int) {
	for _, label := range labels {
		if _, ok := n.Object.Labels[label]; ok {
			count++
		}
	}
	return count
}
