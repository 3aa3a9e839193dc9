package admit

import (
	"fmt"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"howdah.dev/kit/podspec"
	"howdah.dev/nodeagent/internal/pod"
)

// pressure refuses pods while the node is short of something: all, but what the system needs, and where it is memory alone, those that ask for some.
func pressure(p *corev1.Pod, s Site) *refusal {
	var short []corev1.NodeConditionType
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		if conditionTrue(s.Node, kind) {
			short = append(short, kind)
		}
	}
	if len(short) == 0 || pod.Critical(p) {
		return nil
	}
	if len(short) == 1 && short[0] == corev1.NodeMemoryPressure {
		taint := corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}
		if podspec.QOSClass(p) != corev1.PodQOSBestEffort || schedulinghelper.TolerationsTolerateTaint(klog.Background(), p.Spec.Tolerations, &taint, false) {
			return nil
		}
	}
	return &refusal{"Evicted", fmt.Sprintf("The node had condition: %v. ", short)}
}

func conditionTrue(node *corev1.Node, kind corev1.NodeConditionType) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// operatingSystem refuses pods of another one, by the label that some bear and by the specification.
func operatingSystem(p *corev1.Pod, _ Site) *refusal {
	if label, ok := p.Labels[corev1.LabelOSStable]; ok && label != runtime.GOOS {
		return &refusal{"PodOSSelectorNodeLabelDoesNotMatch", "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}
	}
	if p.Spec.OS != nil && string(p.Spec.OS.Name) != runtime.GOOS {
		return &refusal{"PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"}
	}
	return nil
}

// affinity refuses pods that want nodes of another kind.
func affinity(p *corev1.Pod, s Site) *refusal {
	if matches, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(s.Node); err != nil || !matches {
		return predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
	}
	return nil
}

// name refuses pods of other nodes.
func name(p *corev1.Pod, s Site) *refusal {
	if p.Spec.NodeName != "" && p.Spec.NodeName != s.Node.Name {
		return predicate("NodeName", "node(s) didn't match the requested node name")
	}
	return nil
}

// taints refuses pods that would be evicted at once; taints that only keep the scheduler off do not count.
func taints(p *corev1.Pod, s Site) *refusal {
	_, untolerated := schedulinghelper.FindMatchingUntoleratedTaint(klog.Background(), s.Node.Spec.Taints, p.Spec.Tolerations, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoExecute
	}, false)
	if untolerated {
		return predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")
	}
	return nil
}
