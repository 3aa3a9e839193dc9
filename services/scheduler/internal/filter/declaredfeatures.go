package filter

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"

	"howdah.dev/services/scheduler/internal/cluster"
)

// NodeDeclaredFeatures refuses nodes that do not say they can do what the pod needs and not every node can.
var NodeDeclaredFeatures = Filter{
	Name: "NodeDeclaredFeatures",
	Of:   OnNode,
	Prepare: func(pod *corev1.Pod, _ cluster.Snapshot) Check {
		needed := Needed(pod)
		if len(needed) == 0 {
			return nil
		}
		return check{
			passes: func(n *cluster.Node) bool {
				for _, feature := range needed {
					if !slices.Contains(n.Object.Status.DeclaredFeatures, feature) {
						return false
					}
				}
				return true
			},
			reason: "node(s) didn't match Pod's required features",
		}
	},
}

// Needed returns the names of the features that a pod needs of its node, of those that not every node has.
func Needed(pod *corev1.Pod) []string {
	features := nodedeclaredfeatures.DefaultFramework
	// The status says nothing yet. What all nodes can do that a cluster of this version may have is not needed.
	needed, err := features.InferForPodScheduling(&nodedeclaredfeatures.PodInfo{Spec: &pod.Spec}, version.MajorMinor(1, 36))
	if err != nil || needed.IsEmpty() { // it fails without a version alone
		return nil
	}
	names, err := features.Unmap(needed)
	if err != nil { // and this for a set of another framework
		return nil
	}
	return names
}
