package filter

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
)

// NodeName lets a pod that names its node onto that node only.
var NodeName = Filter{
	Name: "NodeName",
	Of:   OnNode,
	Prepare: func(pod *corev1.Pod, _ cluster.Snapshot) Check {
		if pod.Spec.NodeName == "" {
			return nil
		}
		return check{
			passes: func(n *cluster.Node) bool { return n.Name == pod.Spec.NodeName },
			reason: "node(s) didn't match the requested node name",
		}
	},
}
