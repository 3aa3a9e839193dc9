package filter

import (
	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/spread"
)

// TaintToleration refuses nodes with a NoSchedule or NoExecute taint that the
// pod does not tolerate.
var TaintToleration = Filter{
	Name: "TaintToleration",
	Of:   OnTaints,
	Prepare: func(pod *corev1.Pod, _ cluster.Snapshot) Check {
		return check{
			passes: func(n *cluster.Node) bool { return spread.Tolerates(pod, n.Object) },
			reason: "node(s) had untolerated taint(s)",
		}
	},
}

// NodeUnschedulable refuses cordoned nodes, unless the pod tolerates the
// taint that stands for it.
var NodeUnschedulable = Filter{
	Name: "NodeUnschedulable",
	Of:   OnTaints,
	Prepare: func(pod *corev1.Pod, _ cluster.Snapshot) Check {
		taint := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
		tolerated := scheduling.TolerationsTolerateTaint(klog.Logger{}, pod.Spec.Tolerations, &taint, false)
		if tolerated {
			return nil
		}
		return check{
			passes: func(n *cluster.Node) bool { return !n.Object.Spec.Unschedulable },
			reason: "node(s) were unschedulable",
		}
	},
}
