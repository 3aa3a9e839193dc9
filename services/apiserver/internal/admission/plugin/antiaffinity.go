package plugin

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/apiserver/internal/admission"
)

// LimitPodHardAntiAffinityTopology refuses pods that would keep others out of more than their node.
type LimitPodHardAntiAffinityTopology struct{}

// Name implements admission.Plugin.
func (LimitPodHardAntiAffinityTopology) Name() string { return "LimitPodHardAntiAffinityTopology" }

// Handles implements admission.Plugin.
func (LimitPodHardAntiAffinityTopology) Handles(a *admission.Attributes) bool {
	return a.Is("", "pods") && a.Subresource == "" && (a.Operation == admission.Create || a.Operation == admission.Update)
}

// Validate implements admission.Validator.
func (LimitPodHardAntiAffinityTopology) Validate(_ context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	for _, term := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if term.TopologyKey != corev1.LabelHostname {
			return a.Forbidden(fmt.Errorf("affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey %v but only key %v is allowed",
				term.TopologyKey, corev1.LabelHostname))
		}
	}
	return nil
}
