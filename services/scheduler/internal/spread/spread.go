// Package spread has what topology spread constraints say of pods and nodes.
// Source: Kubernetes, Concepts > Scheduling > Pod Topology Spread Constraints.
package spread

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"howdah.dev/services/scheduler/internal/kin"
)

// Constraint is one that holds for a pod, and whom it selects in the pod's namespace.
type Constraint struct {
	corev1.TopologySpreadConstraint
	Selector labels.Selector
}

// Like returns whether a pod counts among those that a pod's constraint is about. A selector of everything, as of nothing, counts none.
func (c Constraint) Like(pod *corev1.Pod) func(p *corev1.Pod) bool {
	if c.Selector.Empty() {
		return func(*corev1.Pod) bool { return false }
	}
	return func(p *corev1.Pod) bool {
		return p.Namespace == pod.Namespace && p.DeletionTimestamp == nil && c.Selector.Matches(labels.Set(p.Labels))
	}
}

// Of returns the constraints of a pod that act as when says. Where it has none at all, of any kind, those by default hold for whom is selected with it.
func Of(pod *corev1.Pod, when corev1.UnsatisfiableConstraintAction, defaults []corev1.TopologySpreadConstraint, relatives kin.View) []Constraint {
	var list []Constraint
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		for _, c := range pod.Spec.TopologySpreadConstraints {
			if c.WhenUnsatisfiable == when {
				list = append(list, Constraint{c, selector(pod, c)})
			}
		}
		return list
	}
	var all labels.Selector
	for _, c := range defaults {
		if c.WhenUnsatisfiable != when {
			continue
		}
		if all == nil {
			if all = relatives.Selector(pod); all == nil {
				return nil
			}
		}
		list = append(list, Constraint{c, all})
	}
	return list
}

// selector is a constraint's selector, narrowed by the values that the pod itself has for matchLabelKeys.
func selector(pod *corev1.Pod, c corev1.TopologySpreadConstraint) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return labels.Nothing()
	}
	for _, key := range c.MatchLabelKeys {
		if value, ok := pod.Labels[key]; ok {
			requirement, err := labels.NewRequirement(key, "in", []string{value})
			if err != nil {
				return labels.Nothing()
			}
			selector = selector.Add(*requirement)
		}
	}
	return selector
}

// Counts returns whether the pods of a node count for a pod's constraint, by the constraint's policies about nodes.
func Counts(pod *corev1.Pod, c corev1.TopologySpreadConstraint) func(n *corev1.Node) bool {
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	honorTaints := c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	ignoreAffinity := c.NodeAffinityPolicy != nil && *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore
	return func(n *corev1.Node) bool {
		if matches, err := affinity.Match(n); !ignoreAffinity && (!matches || err != nil) {
			return false
		}
		return !honorTaints || Tolerates(pod, n)
	}
}

// Tolerates reports whether a pod tolerates all taints of a node that keep pods away.
func Tolerates(pod *corev1.Pod, n *corev1.Node) bool {
	_, untolerated := scheduling.FindMatchingUntoleratedTaint(klog.Logger{}, n.Spec.Taints, pod.Spec.Tolerations, repels, false)
	return !untolerated
}

func repels(t *corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
}
