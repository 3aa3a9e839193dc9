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

// claimGrown says at a claim that its volume is larger.
func (e events) claimGrown(claim *corev1.PersistentVolumeClaim, message string) {
	ref := &corev1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
	}
	e.recorder.Event(ref, corev1.EventTypeNormal, "FileSystemResizeSuccessful", message)
}

// imagesStay says at the node that its disk fills up, and images cannot make room.
func (e events) imagesStay(node, message string) {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)}
	e.recorder.Event(ref, corev1.EventTypeWarning, "FreeDiskSpaceFailed", message)
}

// node tells at the node of what becomes of it.
func (e events) node(node, kind, reason, message string) {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)}
	e.recorder.Event(ref, kind, reason, message)
}

// nodeEvents tells of what the node does because it is short of something.
type nodeEvents struct {
	events
	node string
}

// Evicted says at a pod that it ends.
func (e nodeEvents) Evicted(p *corev1.Pod, annotations map[string]string, message string) {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}
	e.recorder.AnnotatedEventf(ref, annotations, corev1.EventTypeWarning, "Evicted", "%s", message)
}

// Reclaiming says at the node that it tries to get some of a resource back.
func (e nodeEvents) Reclaiming(resource corev1.ResourceName) {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: e.node, UID: types.UID(e.node)}
	e.recorder.Event(ref, corev1.EventTypeWarning, "EvictionThresholdMet", fmt.Sprintf("Attempting to reclaim %s", resource))
}

// manifestBroken says at the node that it cannot run what a manifest asks for.
func (e events) manifestBroken(node, message string) {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)}
	e.recorder.Event(ref, corev1.EventTypeWarning, "InvalidManifest", message)
}

// healthPortFailed says at a service that this node cannot answer its load balancer.
func (e events) healthPortFailed(service types.NamespacedName, message string) {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: service.Namespace, Name: service.Name}
	e.recorder.Event(ref, corev1.EventTypeWarning, "FailedToStartServiceHealthcheck", message)
}

// policyProblem says at a network policy what of it this node cannot enforce.
func (e events) policyProblem(policy types.NamespacedName, message string) {
	ref := &corev1.ObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Namespace: policy.Namespace, Name: policy.Name}
	e.recorder.Event(ref, corev1.EventTypeWarning, "NotEnforced", message)
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
