package daemonset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// Verdict is what a set wants of a node.
type Verdict struct {
	Run  bool // a pod should be there
	Stay bool // a pod that is there may stay; true where Run is
}

// Fit judges nodes for the pods of one set.
type Fit struct {
	node        string // the only node, where the template names one
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
}

// NewFit returns the judge of a set's template.
func NewFit(ds *appsv1.DaemonSet) Fit {
	spec := &ds.Spec.Template.Spec
	return Fit{
		node:        spec.NodeName,
		affinity:    nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *spec}),
		tolerations: tolerations(spec),
	}
}

// Judge returns the verdict for a node. A taint NoSchedule that appears later drives nobody out, as it does
// not for other pods.
func (f Fit) Judge(n *corev1.Node) Verdict {
	if f.node != "" && f.node != n.Name {
		return Verdict{}
	}
	// Terms that do not parse select nothing; the others still count.
	if selected, _ := f.affinity.Match(n); !selected {
		return Verdict{}
	}
	return Verdict{
		Run: f.tolerates(n, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute),
		// Run implies it: its taints are some of those above.
		Stay: f.tolerates(n, corev1.TaintEffectNoExecute),
	}
}

func (f Fit) tolerates(n *corev1.Node, effects ...corev1.TaintEffect) bool {
	_, untolerated := scheduling.FindMatchingUntoleratedTaint(klog.Logger{}, n.Spec.Taints, f.tolerations, func(t *corev1.Taint) bool {
		for _, e := range effects {
			if t.Effect == e {
				return true
			}
		}
		return false
	}, false)
	return !untolerated
}

// tolerations are those of a pod template and those that every daemon pod has: what is wrong with a node is
// often what its daemons are there to repair, or to report.
func tolerations(spec *corev1.PodSpec) []corev1.Toleration {
	all := spec.Tolerations
	tolerate := func(key string, effect corev1.TaintEffect) {
		all = withToleration(all, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect})
	}
	tolerate(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	tolerate(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	tolerate(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)
	tolerate(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule)
	tolerate(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)
	tolerate(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	if spec.HostNetwork {
		tolerate(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	}
	return all
}

// withToleration returns tolerations that include t. One that differs only in how long it lasts gives way to it.
func withToleration(tolerations []corev1.Toleration, t corev1.Toleration) []corev1.Toleration {
	found := false
	all := make([]corev1.Toleration, 0, len(tolerations)+1)
	for _, had := range tolerations {
		if t.MatchToleration(&had) {
			had, found = t, true
		}
		all = append(all, had)
	}
	if !found {
		all = append(all, t)
	}
	return all
}
