// Package volumerecycler wipes released volumes whose reclaim policy is Recycle, so that other claims get them: a pod removes what is on them. Kubernetes
// deprecates it; it runs only where it is named.
package volumerecycler

import (
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	// namespace is where the pods that wipe run, as in Kubernetes.
	namespace = metav1.NamespaceDefault
	// volumeAnnotation of such a pod is the uid of the volume that it wipes.
	volumeAnnotation = "howdah.dev/recycled-volume"
	// prefix begins the pods' names; the volume's follows.
	prefix     = "recycler-for-"
	longestPod = 253
	// wipe removes what is in /scrub, hidden files included, and fails where something is left.
	wipe = `test -e /scrub && rm -rf /scrub/..?* /scrub/.[!.]* /scrub/*  && test -z "$(ls -A /scrub)" || exit 1`
)

// How long a wipe may take, in seconds: so much for each GiB, and no less than the least, which is another where a network is in the way.
const (
	secondsForGiB  = 30
	leastOfFolders = 60
	leastOfNFS     = 300
)

// Plan is what comes next for a volume that was released.
type Plan struct {
	// Create is the pod that is to wipe it, Delete says that the pod that there is has to go.
	Create *corev1.Pod
	Delete bool
	// Free says that nothing is on it any more.
	Free bool
	// Failed says why it could not be wiped.
	Failed string
	// Busy are the pods that use it still: it is to be looked at again.
	Busy []string
}

// Recyclable reports whether volumes of the source can be wiped.
func Recyclable(v *corev1.PersistentVolume) bool { return v.Spec.HostPath != nil || v.Spec.NFS != nil }

// wanted reports whether a volume is to be wiped now.
func wanted(v *corev1.PersistentVolume) bool {
	return v != nil && v.DeletionTimestamp == nil && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle && Recyclable(v) &&
		v.Status.Phase == corev1.VolumeReleased && v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID != ""
}

// Decide says what comes next. volume is nil where it is gone, pod the one that has its name, or nil; users are pods that mount the claim that it had.
func Decide(volume *corev1.PersistentVolume, pod *corev1.Pod, users []string, image string) Plan {
	switch {
	case pod != nil && pod.DeletionTimestamp != nil:
		return Plan{} // its end is heard of
	case !wanted(volume):
		return Plan{Delete: pod != nil}
	case pod == nil && len(users) > 0:
		return Plan{Busy: users}
	case pod == nil:
		return Plan{Create: recycler(volume, image)}
	case pod.Annotations[volumeAnnotation] != string(volume.UID):
		return Plan{Delete: true} // of another volume of the name
	case pod.Status.Phase == corev1.PodSucceeded:
		return Plan{Free: true}
	case pod.Status.Phase == corev1.PodFailed:
		return Plan{Failed: "Recycle failed: " + why(pod)}
	}
	return Plan{}
}

// why says why a pod failed.
func why(pod *corev1.Pod) string {
	if pod.Status.Message != "" {
		return pod.Status.Message
	}
	return "pod failed, pod.Status.Message unknown."
}

// recycler is the pod that wipes a volume.
func recycler(v *corev1.PersistentVolume, image string) *corev1.Pod {
	source, least := corev1.VolumeSource{HostPath: v.Spec.HostPath}, int64(leastOfFolders)
	if v.Spec.NFS != nil {
		source, least = corev1.VolumeSource{NFS: v.Spec.NFS}, leastOfNFS
	}
	size := v.Spec.Capacity[corev1.ResourceStorage]
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: podName(v.Name), Annotations: map[string]string{volumeAnnotation: string(v.UID)}},
		Spec: corev1.PodSpec{
			ActiveDeadlineSeconds: ptr.To(max(least, size.Value()>>30*secondsForGiB)), RestartPolicy: corev1.RestartPolicyNever,
			Volumes: []corev1.Volume{{Name: "vol", VolumeSource: source}},
			Containers: []corev1.Container{{
				Name: "pv-recycler", Image: image, Command: []string{"/bin/sh"}, Args: []string{"-c", wipe},
				VolumeMounts: []corev1.VolumeMount{{Name: "vol", MountPath: "/scrub"}},
			}},
			AutomountServiceAccountToken: ptr.To(false),
		},
	}
	if affinity := v.Spec.NodeAffinity; affinity != nil && affinity.Required != nil {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: affinity.Required}}
	}
	return pod
}

// podName is the name of the pod that wipes a volume. Of a name that is too long a hash stands for the end.
func podName(volume string) string {
	name := prefix + volume
	if len(name) <= longestPod {
		return name
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(volume))
	end := fmt.Sprintf("-%016x", h.Sum64())
	return strings.TrimRight(name[:longestPod-len(end)], "-.") + end
}

// volumeUID is the uid of the volume that a pod wipes, "" for other pods.
func volumeUID(pod *corev1.Pod) types.UID {
	if pod.Namespace != namespace || !strings.HasPrefix(pod.Name, prefix) {
		return ""
	}
	return types.UID(pod.Annotations[volumeAnnotation])
}
