package pod

import corev1 "k8s.io/api/core/v1"

// Annotations that say where a pod comes from, as Kubernetes names them. Of mirrors the API holds them as well.
const (
	SourceAnnotation = "kubernetes.io/config.source"
	HashAnnotation   = "kubernetes.io/config.hash"
	SeenAnnotation   = "kubernetes.io/config.seen"
	MirrorAnnotation = corev1.MirrorPodAnnotationKey
)

// Static says whether a pod comes from a manifest of the node's own. Anybody may write annotations into the API: what comes from there has
// a revision, and is not static whatever it says.
func Static(p *corev1.Pod) bool {
	return p.ResourceVersion == "" && p.Annotations[SourceAnnotation] != ""
}

// Mirror says whether an object of the API stands for a static pod, and of which manifest.
func Mirror(p *corev1.Pod) (hash string, ok bool) {
	hash, ok = p.Annotations[MirrorAnnotation]
	return hash, ok && p.ResourceVersion != ""
}
