package container

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/kit/podspec"
	"howdah.dev/nodeagent/internal/pod"
)

// swapFile bounds what a group of version 2 has of swap space, beside its memory.
const swapFile = "memory.swap.max"

// Swap says what the node's containers may have of its swap space.
// https://kubernetes.io/docs/concepts/cluster-administration/swap-memory-management/
type Swap struct {
	// Bounded says that control groups of version 2 can bound it; in those of version 1 a container's limit of memory is one of both.
	Bounded bool
	// Limited gives containers a share, as they ask for memory; otherwise they have none.
	Limited bool
	// Capacity is the node's, in bytes.
	Capacity int64
}

// bound says in the runtime's terms what a container has of swap space.
func (s Swap) bound(r *runtimeapi.LinuxContainerResources, p *corev1.Pod, c *corev1.Container, memory int64) {
	if !s.Bounded {
		r.MemorySwapLimitInBytes = r.GetMemoryLimitInBytes()
		return
	}
	r.Unified = map[string]string{swapFile: strconv.FormatInt(s.share(p, c, memory), 10)}
}

// share is what a container may have, in bytes, of a node with so much memory. What is to have all of its memory, or asks for none, has no share, nor has
// what the system needs.
func (s Swap) share(p *corev1.Pod, c *corev1.Container, memory int64) int64 {
	request, limit := c.Resources.Requests.Memory(), c.Resources.Limits.Memory()
	if !s.Limited || pod.Critical(p) || podspec.QOSClass(p) != corev1.PodQOSBurstable || request.Cmp(*limit) == 0 || memory <= 0 || request.Value() > memory {
		return 0
	}
	return int64(float64(request.Value()) / float64(memory) * float64(s.Capacity))
}
