package score

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/scheduler/internal/cluster"
)

// TestImages rates the first of four nodes, which has all the images; two have some. What an image counts is its size by the share of nodes that
// have it, beyond 23 MiB, of 977 MiB for each container.
func TestImages(t *testing.T) {
	t.Parallel()
	cache := cluster.NewCache()
	image := func(name string, mib int64) corev1.ContainerImage {
		return corev1.ContainerImage{Names: []string{name}, SizeBytes: mib << 20}
	}
	for i, images := range [][]corev1.ContainerImage{
		{image("a.example/big:1", 1600), image("a.example:5000/small:latest", 20), image("nginx:latest", 800), image("docker.io/library/redis:latest", 800)},
		{image("a.example/big:1", 1600)}, nil, nil,
	} {
		n := newNode(strconv.Itoa(i), "")
		n.Status.Images = images
		cache.SetNode(n)
	}
	s := cache.Snapshot()
	for _, tt := range []struct {
		name                  string
		inits, names, volumes []string
		want                  int64
	}{
		{"half of 1600 MiB", nil, []string{"a.example/big:1"}, nil, 79},
		{"none that nodes have", nil, []string{"a.example/big:2"}, nil, 0},
		{"too small", nil, []string{"a.example:5000/small"}, nil, 0},
		{"the tag that goes without saying", nil, []string{"nginx"}, nil, 18},
		{"a registry that goes without saying", nil, []string{"redis"}, nil, 0},
		{"of two containers", nil, []string{"a.example/big:1", "other"}, nil, 39},
		{"an init container's counts as well", []string{"a.example/big:1"}, []string{"nginx"}, nil, 49},
		{"a volume's raises no cap", nil, []string{"other"}, []string{"a.example/big:1", "nginx"}, 100},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		for _, name := range tt.inits {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Image: name})
		}
		for _, name := range tt.names {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Image: name})
		}
		for _, name := range tt.volumes {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: name}}})
		}
		if got := ImageLocality.Of(pod, s, s.Nodes)[0]; got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
