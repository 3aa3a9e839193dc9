package container

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/kit/podspec"
	"howdah.dev/nodeagent/internal/hugepage"
	"howdah.dev/nodeagent/internal/pod"
)

// Units of the kernel's CPU controller.
const (
	cpuPeriod    = 100_000 // microseconds
	minCPUQuota  = 1_000
	minCPUShares = 2
	maxCPUShares = 262_144
)

// Shares returns the CPU shares of a request in thousandths of a core.
func Shares(milli int64) int64 {
	if milli == 0 {
		return minCPUShares
	}
	return min(max(milli*1024/1000, minCPUShares), maxCPUShares)
}

// Quota returns the CPU time, in microseconds a period, of a limit in
// thousandths of a core; 0 is no limit.
func Quota(milli int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*cpuPeriod/1000, minCPUQuota)
}

// Resources are those of a pod's container in the runtime's terms.
func Resources(p *corev1.Pod, c *corev1.Container, node Node) *runtimeapi.LinuxContainerResources {
	own := pod.Within(pod.Whole(p), c.Resources)
	request, asked := own.Requests[corev1.ResourceCPU]
	cpuLimit := own.Limits[corev1.ResourceCPU]
	if !asked {
		request = cpuLimit
	}
	r := &runtimeapi.LinuxContainerResources{
		CpuShares:   Shares(request.MilliValue()),
		OomScoreAdj: oomScore(p, c, node),
	}
	if quota := Quota(cpuLimit.MilliValue()); quota > 0 && !node.NoCPUQuota {
		r.CpuPeriod, r.CpuQuota = cpuPeriod, quota
	}
	if memory, ok := own.Limits[corev1.ResourceMemory]; ok {
		r.MemoryLimitInBytes = memory.Value()
	}
	node.Swap.bound(r, p, c, node.Capacity.Memory().Value())
	if node.PageLimits {
		r.HugepageLimits = pageLimits(own.Limits, node.Capacity)
	}
	return r
}

// pageLimits are those of every size of huge pages that the node has, from the smallest on: none where the container asks for none.
func pageLimits(limits, capacity corev1.ResourceList) []*runtimeapi.HugepageLimit {
	var sizes []int64
	for name := range capacity {
		if size, ok := hugepage.Size(name); ok {
			sizes = append(sizes, size)
		}
	}
	slices.Sort(sizes)
	var out []*runtimeapi.HugepageLimit
	for _, size := range sizes {
		limit := limits[hugepage.Resource(size)]
		out = append(out, &runtimeapi.HugepageLimit{PageSize: hugepage.Unit(size), Limit: uint64(limit.Value())})
	}
	return out
}

// Scores by which the kernel chooses what to kill when memory ends.
const (
	oomGuaranteed = -997
	oomBestEffort = 1000
)

func oomScore(p *corev1.Pod, c *corev1.Container, node Node) int64 {
	if p.Spec.PriorityClassName == "system-node-critical" {
		return oomGuaranteed
	}
	switch podspec.QOSClass(p) {
	case corev1.PodQOSGuaranteed:
		return oomGuaranteed
	case corev1.PodQOSBestEffort:
		return oomBestEffort
	}
	capacity := node.Capacity[corev1.ResourceMemory]
	if capacity.Value() == 0 {
		return oomBestEffort - 1
	}
	asked := c.Resources.Requests.Memory().Value()
	if isSidecar(p, c) { // it is not killed before those that need it
		asked = max(asked, leastAsked(p.Spec.Containers))
	}
	// The more of the node a container asked for, the later it is killed.
	score := 1000 - 1000*(asked+unclaimed(p))/capacity.Value()
	return min(max(score, 1000+oomGuaranteed), oomBestEffort-1)
}

func isSidecar(p *corev1.Pod, c *corev1.Container) bool {
	return pod.Sidecar(c) && slices.ContainsFunc(p.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name })
}

// leastAsked is the memory that the least of the containers asks for.
func leastAsked(list []corev1.Container) int64 {
	least := int64(math.MaxInt64)
	for i := range list {
		least = min(least, list[i].Resources.Requests.Memory().Value())
	}
	return least
}

// unclaimed is a container's share of the memory that a pod as a whole asks for beyond what its containers do.
func unclaimed(p *corev1.Pod) int64 {
	whole, ok := pod.Whole(p).Requests[corev1.ResourceMemory]
	if !ok {
		return 0
	}
	claimed := resourcehelper.AggregateContainerRequests(p, resourcehelper.PodResourcesOptions{})
	return (whole.Value() - claimed.Memory().Value()) / int64(len(p.Spec.Containers)+len(p.Spec.InitContainers))
}
