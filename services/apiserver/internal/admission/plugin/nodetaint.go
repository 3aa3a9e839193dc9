package plugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/apiserver/internal/admission"
)

// TaintNodesByCondition keeps pods off a new node until it has said that it is ready.
type TaintNodesByCondition struct{}

// Name implements admission.Plugin.
func (TaintNodesByCondition) Name() string { return "TaintNodesByCondition" }

// Handles implements admission.Plugin.
func (TaintNodesByCondition) Handles(a *admission.Attributes) bool {
	return a.Operation == admission.Create && a.Subresource == "" && a.Is("", "nodes")
}

// Admit implements admission.Mutator.
func (TaintNodesByCondition) Admit(_ context.Context, a *admission.Attributes) error {
	node, ok := a.Object.(*corev1.Node)
	if !ok {
		return nil
	}
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	for _, t := range node.Spec.Taints {
		if t.MatchTaint(&taint) {
			return nil
		}
	}
	node.Spec.Taints = append(node.Spec.Taints, taint)
	return nil
}
