// Package evict ends pods that take up more of the node's disk than they may.
package evict

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"howdah.dev/nodeagent/internal/pod"
)

// Used is what a pod's files take up on the node's disk, in bytes.
type Used struct {
	// Containers holds, by name, what those that run have written beside their volumes, and their logs.
	Containers map[string]int64
	// Volumes holds, by name, the emptyDir volumes on disk.
	Volumes map[string]int64
}

// The limits, by the names that the kubelet's metric gives them.
const (
	signalVolume    = "emptydirfs.limit"
	signalPod       = "ephemeralpodfs.limit"
	signalContainer = "ephemeralcontainerfs.limit"
)

// grace is how long, in seconds, the containers of such a pod may take to end: they go on writing.
const grace = 1

// Limited says whether the pod has a limit of this kind at all.
func Limited(p *corev1.Pod) bool {
	if _, ok := whole(p); ok {
		return true
	}
	for i := range p.Spec.Volumes {
		if sizeLimit(&p.Spec.Volumes[i]) != nil {
			return true
		}
	}
	return false
}

// Exceeded decides whether a pod uses more than it may: of a volume, of what its containers may use together, or one container alone. signal
// names the limit; why is nil where the pod keeps to all of them.
func Exceeded(p *corev1.Pod, used Used) (signal string, why *pod.Failure) {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if limit := sizeLimit(v); limit != nil && limit.CmpInt64(used.Volumes[v.Name]) < 0 {
			return signalVolume, failure("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, limit.String())
		}
	}
	if limit, ok := whole(p); ok && limit.CmpInt64(used.total()) < 0 {
		return signalPod, failure("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit.String())
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if limit := c.Resources.Limits.StorageEphemeral(); !limit.IsZero() && limit.CmpInt64(used.Containers[c.Name]) < 0 {
			return signalContainer, failure("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String())
		}
	}
	return "", nil
}

func failure(format string, args ...any) *pod.Failure {
	seconds := int64(grace)
	return &pod.Failure{Reason: "Evicted", Message: fmt.Sprintf(format, args...), Grace: &seconds}
}

// sizeLimit is a volume's limit where the agent has to see to it: a volume in memory is as large as it may be from the start.
func sizeLimit(v *corev1.Volume) *resource.Quantity {
	if v.EmptyDir == nil || v.EmptyDir.Medium != corev1.StorageMediumDefault || v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Sign() <= 0 {
		return nil
	}
	return v.EmptyDir.SizeLimit
}

// whole is what the pod's containers may use together.
func whole(p *corev1.Pod) (resource.Quantity, bool) {
	limit, ok := resourcehelper.PodLimits(p, resourcehelper.PodResourcesOptions{})[corev1.ResourceEphemeralStorage]
	return limit, ok
}

func (u Used) total() int64 {
	var sum int64
	for _, bytes := range u.Containers {
		sum += bytes
	}
	for _, bytes := range u.Volumes {
		sum += bytes
	}
	return sum
}
