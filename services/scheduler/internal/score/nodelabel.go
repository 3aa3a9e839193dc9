package score

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
)

// NodeLabel prefers nodes with some labels and without others, whatever their values: each that is as it should be counts the same.
func NodeLabel(present, absent []string) Score {
	return Score{
		Name: "NodeLabel", Weight: 1,
		Prepare: func(*corev1.Pod, cluster.Snapshot) func(*cluster.Node) int64 {
			all := int64(len(present) + len(absent))
			if all == 0 {
				return nil
			}
			return func(n *cluster.Node) (rating int64) {
				for _, label := range present {
					if _, ok := n.Object.Labels[label]; ok {
						rating += Max
					}
				}
				for _, label := range absent {
					if _, ok := n.Object.Labels[label]; !ok {
						rating += Max
					}
				}
				return rating / all
			}
		},
	}
}
