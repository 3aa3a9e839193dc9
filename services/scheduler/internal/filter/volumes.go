package filter

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
)

// VolumeBinding refuses every node for pods that use persistent volume
// claims: the API does not serve claims yet, so none can be bound.
var VolumeBinding = Filter{
	Name: "VolumeBinding",
	Prepare: func(pod *corev1.Pod, _ cluster.Snapshot) Check {
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				return refuseAll(`persistentvolumeclaim "` + v.PersistentVolumeClaim.ClaimName + `" not found`)
			}
			if v.Ephemeral != nil {
				return refuseAll(`waiting for ephemeral volume controller to create the persistentvolumeclaim "` + pod.Name + "-" + v.Name + `"`)
			}
		}
		return nil
	},
}

func refuseAll(reason string) Check {
	return check{passes: func(*cluster.Node) bool { return false }, reason: reason}
}
