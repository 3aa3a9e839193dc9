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
// so for images that few nodes have, lest all pods gather there.
var ImageLocality = Score{
	Name: "ImageLocality", Weight: 1,
	Prepare: func(pod *corev1.Pod, snapshot cluster.Snapshot) func(*cluster.Node) int64 {
		var images []string
		for _, c := range pod.Spec.Containers {
			images = append(images, fullName(c.Image))
		}
		if len(snapshot.Nodes) == 0 || len(images) == 0 {
			return nil
		}
		nodesWith := make([]int64, len(images))
		for _, n := range snapshot.Nodes {
			for i, image := range images {
				if _, ok := n.Images[image]; ok {
					nodesWith[i]++
				}
			}
		}
		return func(n *cluster.Node) int64 {
			var sum int64
			for i, image := range images {
				sum += n.Images[image] * nodesWith[i] / int64(len(snapshot.Nodes))
			}
			upper := int64(largeImage * len(images))
			sum = min(max(sum, smallImage), upper)
			return Max * (sum - smallImage) / (upper - smallImage)
		}
	},
}

// fullName gives an image name the registry and tag that runtimes report it
// with: "nginx" is "docker.io/library/nginx:latest".
func fullName(image string) string {
	name := image
	first, _, slashed := strings.Cut(name, "/")
	switch {
	case !slashed:
		name = "docker.io/library/" + name
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		name = "docker.io/" + name
	}
	if last := name[strings.LastIndex(name, "/")+1:]; !strings.ContainsAny(last, ":@") {
		name += ":latest"
	}
	return name
}
