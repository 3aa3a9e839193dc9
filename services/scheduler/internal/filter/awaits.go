package filter

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"howdah.dev/services/scheduler/internal/affinity"
	"howdah.dev/services/scheduler/internal/spread"
)

// Awaits reports whether a pod that waits may go somewhere because another one has come to a node: one that it wants to be near, or one that evens
// out how its like are spread, as constraints that refuse nodes ask for it.
func Awaits(waiting, other *corev1.Pod, constraints []spread.Constraint, namespaces affinity.Namespaces) bool {
	if slices.ContainsFunc(affinity.Required(waiting), func(t affinity.Term) bool { return t.Matches(other, namespaces) }) {
		return true
	}
	return waiting.Namespace == other.Namespace && slices.ContainsFunc(constraints, func(c spread.Constraint) bool { return c.Selector.Matches(labels.Set(other.Labels)) })
}
