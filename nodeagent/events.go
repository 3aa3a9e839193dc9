package nodeagent

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	podspec "howdah.dev/nodeagent/internal/pod"
)

// events records what happens to pods as Kubernetes events.
type events struct{ recorder record.EventRecorder }

// Event records an event about a pod, or about one of its containers.
func (e events) Event(pod *corev1.Pod, container, kind, reason, message string) {
	ref := &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		FieldPath: fieldPath(pod, container),
	}
	e.recorder.Event(ref, kind, reason, message)
}

// imagesStay says at the node that its disk fills up, and images cannot make room.
func (e events) imagesStay(node, message string) {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)}
	e.recorder.Event(ref, corev1.EventTypeWarning, "FreeDiskSpaceFailed", message)
}

// healthPortFailed says at a service that this node cannot answer its load balancer.
func (e events) healthPortFailed(service types.NamespacedName, message string) {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: service.Namespace, Name: service.Name}
	e.recorder.Event(ref, corev1.EventTypeWarning, "FailedToStartServiceHealthcheck", message)
}

func fieldPath(pod *corev1.Pod, container string) string {
	if container == "" {
		return ""
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == container {
			return fmt.Sprintf("spec.initContainers{%s}", container)
		}
	}
	if podspec.Ephemeral(pod, container) != nil {
		return fmt.Sprintf("spec.ephemeralContainers{%s}", container)
	}
	return fmt.Sprintf("spec.containers{%s}", container)
}
