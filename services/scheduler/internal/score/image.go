package score

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
)

// Images below the lower size count nothing, and the sum is capped at the
// upper size for each container, as Kubernetes has it.
const (
	smallImage = 23 << 20
	largeImage = 1000 << 20
)

// ImageLocality prefers nodes that have the pod's images, by size, and less
// so for images that few nodes have, lest all pods gather there. Volumes of
// images count beside those of containers, but do not raise the cap.
var ImageLocality = Score{
	Name: "ImageLocality", Weight: 1,
	Prepare: func(pod *corev1.Pod, snapshot cluster.Snapshot) func(*cluster.Node) int64 {
		images := Images(pod)
		if len(snapshot.Nodes) == 0 || len(images) == 0 {
			return nil
		}
		nodesWith := make([]float64, len(images))
		for _, n := range snapshot.Nodes {
			for i, image := range images {
				if _, ok := n.Images[image]; ok {
					nodesWith[i]++
				}
			}
		}
		upper := int64(largeImage * (len(pod.Spec.InitContainers) + len(pod.Spec.Containers)))
		return func(n *cluster.Node) int64 {
			var sum int64
			for i, image := range images {
				sum += int64(float64(n.Images[image]) * (nodesWith[i] / float64(len(snapshot.Nodes))))
			}
			sum = min(max(sum, smallImage), upper)
			return Max * (sum - smallImage) / (upper - smallImage)
		}
	},
}

// Images are the names of all images that a pod is made of, as they are looked for on nodes.
func Images(pod *corev1.Pod) []string {
	images := make([]string, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			images = append(images, tagged(containers[i].Image))
		}
	}
	for i := range pod.Spec.Volumes {
		if v := pod.Spec.Volumes[i].Image; v != nil {
			images = append(images, tagged(v.Reference))
		}
	}
	return images
}

// tagged gives an image's name the tag that it has where none is said. Nothing else is added: an image is found on a node by the name that the node
// reports it with, registry and all.
func tagged(image string) string {
	if strings.LastIndex(image, ":") <= strings.LastIndex(image, "/") {
		image += ":latest"
	}
	return image
}
