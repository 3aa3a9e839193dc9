package score

import (
	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"howdah.dev/services/scheduler/internal/cluster"
)

// TaintToleration prefers nodes with fewer PreferNoSchedule taints that the
// pod does not tolerate.
var TaintToleration = Score{
	Name: "TaintToleration", Weight: 3, Normalise: lowestIsBest,
	Prepare: func(pod *corev1.Pod, _ cluster.Snapshot) func(*cluster.Node) int64 {
		return func(n *cluster.Node) (untolerated int64) {
			for i := range n.Object.Spec.Taints {
				t := &n.Object.Spec.Taints[i]
				if t.Effect == corev1.TaintEffectPreferNoSchedule && !scheduling.TolerationsTolerateTaint(klog.Logger{}, pod.Spec.Tolerations, t, false) {
					untolerated++
				}
			}
			return untolerated
		}
	},
}

// NodeAffinity prefers nodes that the pod's preferred node affinity selects, and the one that is added to that of all pods; nil adds none.
func NodeAffinity(added *nodeaffinity.PreferredSchedulingTerms) Score {
	return Score{
		Name: "NodeAffinity", Weight: 2, Normalise: highestIsBest,
		Prepare: func(pod *corev1.Pod, _ cluster.Snapshot) func(*cluster.Node) int64 {
			own := preferred(pod)
			switch {
			case own == nil && added == nil:
				return nil
			case own == nil:
				return func(n *cluster.Node) int64 { return added.Score(n.Object) }
			case added == nil:
				return func(n *cluster.Node) int64 { return own.Score(n.Object) }
			}
			return func(n *cluster.Node) int64 { return added.Score(n.Object) + own.Score(n.Object) }
		},
	}
}

// preferred is the pod's preferred node affinity, nil where it has none.
func preferred(pod *corev1.Pod) *nodeaffinity.PreferredSchedulingTerms {
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		return nil
	}
	terms, err := nodeaffinity.NewPreferredSchedulingTerms(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	if err != nil {
		return nil // validation lets no malformed term in
	}
	return terms
}
