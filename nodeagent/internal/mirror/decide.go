// Package mirror shows the node's static pods in the API, where nobody else knows of them: each has an object of its name there, its mirror,
// which bears its status. What happens to a mirror does nothing to the pod.
package mirror

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/nodeagent/internal/pod"
)

// Action is what is to be done for a mirror.
type Action int

// The actions.
const (
	Nothing Action = iota
	Create
	Delete
)

// Decide says what is to be done: static is the pod, nil where none runs, mirror what the API has, nil where it has none, and node the
// node as it is in the API, nil where it is not known. A mirror that is to be another one is deleted, and made with the next decision.
func Decide(static *corev1.Pod, ending bool, mirror *corev1.Pod, node *corev1.Node) Action {
	switch {
	case mirror == nil && (static == nil || ending || node == nil):
		return Nothing
	case mirror == nil:
		return Create
	case static == nil || mirror.DeletionTimestamp != nil:
		return Delete // of a pod with containers on a node, only the node may say that it is over
	case ending || node == nil:
		return Nothing // it tells how the pod ends
	case !Fits(static, mirror) || !owned(mirror, node) || over(static, mirror):
		return Delete
	}
	return Nothing
}

// Fits says whether a mirror is that of the pod as its manifest is now.
func Fits(static, mirror *corev1.Pod) bool {
	hash, ok := pod.Mirror(mirror)
	return ok && hash == static.Annotations[pod.HashAnnotation]
}

func owned(mirror *corev1.Pod, node *corev1.Node) bool {
	owner := metav1.GetControllerOf(mirror)
	return owner != nil && owner.Kind == "Node" && owner.Name == node.Name && owner.UID == node.UID
}

// over says whether a mirror tells that the pod has ended though it runs again: no status takes that back.
func over(static, mirror *corev1.Pod) bool {
	return pod.Finished(mirror) && static.Status.StartTime != nil && !pod.Finished(static)
}

// Make returns the mirror of a pod.
func Make(static *corev1.Pod, node *corev1.Node) *corev1.Pod {
	m := static.DeepCopy()
	yes := true
	m.ObjectMeta = metav1.ObjectMeta{
		Name: static.Name, Namespace: static.Namespace, Labels: m.Labels, Annotations: m.Annotations,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: &yes}},
	}
	m.Annotations[pod.MirrorAnnotation] = static.Annotations[pod.HashAnnotation]
	m.Status = corev1.PodStatus{}
	return m
}
