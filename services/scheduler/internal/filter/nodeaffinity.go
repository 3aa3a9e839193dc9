package filter

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"howdah.dev/services/scheduler/internal/cluster"
)

// NodeAffinity refuses nodes that the pod's nodeSelector or required node
// affinity does not select.
var NodeAffinity = Filter{
	Name: "NodeAffinity",
	Prepare: func(pod *corev1.Pod, _ cluster.Snapshot) Check {
		affinity := pod.Spec.Affinity
		required := affinity != nil && affinity.NodeAffinity != nil &&
			affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
		if len(pod.Spec.NodeSelector) == 0 && !required {
			return nil
		}
		wanted := nodeaffinity.GetRequiredNodeAffinity(pod)
		return check{
			passes: func(n *cluster.Node) bool {
				ok, err := wanted.Match(n.Object)
				return ok && err == nil
			},
			reason: "node(s) didn't match Pod's node affinity/selector",
		}
	},
}
