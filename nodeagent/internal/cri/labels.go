package cri

import (
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Labels and annotations on sandboxes and containers. They are the agent's
// only record of what it has made, so that it may restart at any time; the
// names are those that crictl and log collectors look for.
const (
	LabelPodName      = "io.kubernetes.pod.name"
	LabelPodNamespace = "io.kubernetes.pod.namespace"
	LabelPodUID       = "io.kubernetes.pod.uid"
	LabelContainer    = "io.kubernetes.container.name"

	AnnotationHash          = "io.kubernetes.container.hash"
	AnnotationRestartCount  = "io.kubernetes.container.restartCount"
	AnnotationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	AnnotationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
	AnnotationMessageFile   = "howdah.dev/termination-message-file"
	AnnotationGracePeriod   = "io.kubernetes.pod.terminationGracePeriod"
	AnnotationPreStop       = "howdah.dev/pre-stop"
	AnnotationLife          = "howdah.dev/pod-life"
	// AnnotationSource is on sandboxes of static pods: where their manifest came from.
	AnnotationSource = "kubernetes.io/config.source"
)

// PodLabels are the labels of a pod's sandbox and of each of its containers.
func PodLabels(pod *corev1.Pod) map[string]string {
	return map[string]string{
		LabelPodName:      pod.Name,
		LabelPodNamespace: pod.Namespace,
		LabelPodUID:       string(pod.UID),
	}
}

// Hash covers the fields of a container whose change makes a new one
// necessary. The API lets only the image of a running pod change.
func Hash(c *corev1.Container) string {
	h := fnv.New32a()
	h.Write([]byte(c.Name + "\x00" + c.Image))
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}
