package plugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/apiserver/internal/admission"
)

// evictAfter is how long a pod stays on a node that is not ready or not reached, in seconds.
const evictAfter = int64(300)

// DefaultTolerationSeconds lets pods that say nothing of it stay a while on a node that is not ready or not reached.
type DefaultTolerationSeconds struct{}

// Name implements admission.Plugin.
func (*DefaultTolerationSeconds) Name() string { return "DefaultTolerationSeconds" }

// Handles implements admission.Plugin.
func (*DefaultTolerationSeconds) Handles(a *admission.Attributes) bool {
	return a.Is("", "pods") && a.Subresource == "" && (a.Operation == admission.Create || a.Operation == admission.Update)
}

// Admit implements admission.Mutator.
func (*DefaultTolerationSeconds) Admit(_ context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if tolerates(pod, taint) {
			continue
		}
		seconds := evictAfter
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		})
	}
	return nil
}

func tolerates(pod *corev1.Pod, taint string) bool {
	for _, t := range pod.Spec.Tolerations {
		if (t.Key == taint || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}
