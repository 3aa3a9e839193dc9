package container

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/pod"
)

// sandboxAnnotations tell the agent's next life what the API may not: that a pod is from a manifest.
func sandboxAnnotations(p *corev1.Pod) map[string]string {
	out := map[string]string{}
	if pod.Static(p) {
		out[cri.AnnotationSource] = p.Annotations[pod.SourceAnnotation]
	}
	return out
}
