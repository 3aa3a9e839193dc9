package preempt

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Budgets are PodDisruptionBudgets, ready to be counted against.
type Budgets []budget

type budget struct {
	namespace string
	selector  labels.Selector
	allowed   int32
	disrupted map[string]metav1.Time // pods whose end is counted already, by name
}

// NewBudgets reads the budgets that select anything.
func NewBudgets(objects []*policyv1.PodDisruptionBudget) Budgets {
	var budgets Budgets
	for _, o := range objects {
		selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector)
		if err != nil || selector.Empty() {
			continue
		}
		budgets = append(budgets, budget{o.Namespace, selector, o.Status.DisruptionsAllowed, o.Status.DisruptedPods})
	}
	return budgets
}

// split tells the pods whose end would exceed a budget from the others, were they to end in this order. Either keeps the order.
func (b Budgets) split(pods []*corev1.Pod) (exceeding, others []*corev1.Pod) {
	left := make([]int32, len(b))
	for i := range b {
		left[i] = b[i].allowed
	}
	for _, pod := range pods {
		exceeds := false
		for i := range b {
			if b[i].counts(pod) {
				left[i]--
				exceeds = exceeds || left[i] < 0
			}
		}
		if exceeds {
			exceeding = append(exceeding, pod)
		} else {
			others = append(others, pod)
		}
	}
	return exceeding, others
}

// counts reports whether the end of a pod uses up one of what the budget allows.
func (b *budget) counts(pod *corev1.Pod) bool {
	if len(pod.Labels) == 0 || pod.Namespace != b.namespace || !b.selector.Matches(labels.Set(pod.Labels)) {
		return false
	}
	_, counted := b.disrupted[pod.Name]
	return !counted
}
