package volume

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// use says how containers of a pod have a volume.
type use struct{ mounted, device bool }

// uses finds how a pod's containers of all three sorts have its volumes, by the volumes' names. Ephemeral ones come later, if at all: what they are the
// first to want is made when they start.
func uses(pod *corev1.Pod) map[string]use {
	out := map[string]use{}
	look := func(mounts []corev1.VolumeMount, devices []corev1.VolumeDevice) {
		for _, m := range mounts {
			out[m.Name] = use{mounted: true, device: out[m.Name].device}
		}
		for _, d := range devices {
			out[d.Name] = use{mounted: out[d.Name].mounted, device: true}
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		look(c.VolumeMounts, c.VolumeDevices)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		look(c.VolumeMounts, c.VolumeDevices)
	}
	return out
}

// Used are the volumes of a pod that its containers have. No others are made: what they refer to need not even be there.
// https://kubernetes.io/docs/concepts/storage/volumes/#how-volumes-work
func Used(pod *corev1.Pod) []*corev1.Volume {
	var out []*corev1.Volume
	uses := uses(pod)
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; uses[v.Name] != (use{}) {
			out = append(out, v)
		}
	}
	return out
}
