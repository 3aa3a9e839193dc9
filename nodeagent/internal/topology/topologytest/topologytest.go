// Package topologytest has what the tests of those who hand out a node's resources share.
package topologytest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/topology"
)

// PodOf is a pod with containers.
func PodOf(uid types.UID, init []corev1.Container, main ...corev1.Container) *corev1.Pod {
	p := &corev1.Pod{}
	p.UID, p.Spec.InitContainers, p.Spec.Containers = uid, init, main
	return p
}

// Allocator gives a container what it asks for, where the hint says.
type Allocator interface {
	Allocate(ctx context.Context, pod *corev1.Pod, c *corev1.Container, hint topology.Hint) error
}

// Give gives to all containers of a pod, in the order in which they start, near the nodes of memory that are named.
func Give(m Allocator, p *corev1.Pod, near ...int) error {
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if err := m.Allocate(context.Background(), p, &list[i], topology.Hint{Nodes: topology.Of(near...)}); err != nil {
				return err
			}
		}
	}
	return nil
}
