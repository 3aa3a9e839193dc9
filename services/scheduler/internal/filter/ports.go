package filter

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
)

// NodePorts refuses nodes on which a host port of the pod is taken.
var NodePorts = Filter{
	Name:  "NodePorts",
	Of:    OnRoom,
	Frees: sharesPorts,
	Prepare: func(pod *corev1.Pod, _ cluster.Snapshot) Check {
		wanted := cluster.HostPorts(pod)
		if len(wanted) == 0 {
			return nil
		}
		return check{
			passes: func(n *cluster.Node) bool { return portsFree(wanted, n) },
			reason: "node(s) didn't have free ports for the requested pod ports",
			byPods: true,
		}
	},
}

func portsFree(wanted []cluster.HostPort, n *cluster.Node) bool {
	for _, pod := range n.Pods {
		for _, taken := range cluster.HostPorts(pod) {
			for _, w := range wanted {
				if w.Conflicts(taken) {
					return false
				}
			}
		}
	}
	return true
}

// sharesPorts reports whether two pods cannot be on one node for their host ports.
func sharesPorts(pod, other *corev1.Pod) bool {
	return !portsFree(cluster.HostPorts(pod), &cluster.Node{Pods: []*corev1.Pod{other}})
}
