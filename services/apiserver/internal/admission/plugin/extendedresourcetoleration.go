package plugin

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/admission"
)

// ExtendedResourceToleration lets pods that ask for an extended resource, as a GPU, onto the nodes that are tainted with its name.
type ExtendedResourceToleration struct{}

// Name implements admission.Plugin.
func (ExtendedResourceToleration) Name() string { return "ExtendedResourceToleration" }

// Handles implements admission.Plugin.
func (ExtendedResourceToleration) Handles(a *admission.Attributes) bool {
	return a.Is("", "pods") && a.Subresource == "" && (a.Operation == admission.Create || a.Operation == admission.Update)
}

// Admit implements admission.Mutator.
func (ExtendedResourceToleration) Admit(_ context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	names := map[string]bool{}
	eachContainer(&pod.Spec, func(c *corev1.Container, _ *field.Path) {
		for name := range c.Resources.Requests {
			if extended(name) {
				names[string(name)] = true
			}
		}
	})
	for _, name := range slices.Sorted(maps.Keys(names)) {
		tolerate(pod, corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	return nil
}

// extended reports whether a resource is neither Kubernetes' own nor a quota's.
func extended(name corev1.ResourceName) bool {
	s := string(name)
	if !strings.Contains(s, "/") || strings.Contains(s, corev1.ResourceDefaultNamespacePrefix) || strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+s)) == 0
}

// tolerate adds a toleration, or replaces the one for the same taint.
func tolerate(pod *corev1.Pod, t corev1.Toleration) {
	for i := range pod.Spec.Tolerations {
		if pod.Spec.Tolerations[i].MatchToleration(&t) {
			pod.Spec.Tolerations[i] = t
			return
		}
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, t)
}
