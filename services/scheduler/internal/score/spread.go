package score

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/scheduler/internal/cluster"
)

// PodTopologySpread prefers nodes with fewer pods of the same controller, as
// Kubernetes' default constraints do for pods that have none of their own.
// It rates by the node itself: 100 for none, 50 for one, 33 for two.
var PodTopologySpread = Score{
	Name: "PodTopologySpread", Weight: 2, FollowsPods: true,
	Prepare: func(pod *corev1.Pod, _ cluster.Snapshot) func(*cluster.Node) int64 {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || len(pod.Spec.TopologySpreadConstraints) > 0 {
			return nil
		}
		return func(n *cluster.Node) int64 {
			siblings := int64(0)
			for _, p := range n.Pods {
				if o := metav1.GetControllerOfNoCopy(p); o != nil && o.UID == owner.UID && p.DeletionTimestamp == nil {
					siblings++
				}
			}
			return Max / (1 + siblings)
		}
	},
}
