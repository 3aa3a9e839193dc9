package admit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// resources refuses a pod that asks for more than the others leave: one pod more, then what machines have, then what else nodes can have.
func resources(p *corev1.Pod, s Site) *refusal {
	capacity := s.Node.Status.Allocatable
	if most := capacity.Pods().Value(); int64(len(s.Others)) >= most {
		return outOf(corev1.ResourcePods, 1, int64(len(s.Others)), most)
	}
	asked := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
	used := map[corev1.ResourceName]resource.Quantity{}
	for _, other := range s.Others {
		// As the scheduler counts: the larger of what it asks for and what it was given.
		for name, q := range resourcehelper.PodRequests(other, resourcehelper.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}) {
			sum := used[name]
			sum.Add(q)
			used[name] = sum
		}
	}
	for _, name := range inOrder(asked) {
		has, known := capacity[name]
		if !known && extended(name) {
			continue // of the cluster, not of a node
		}
		wants, taken, all := units(name, asked[name]), units(name, used[name]), units(name, has)
		if wants > 0 && wants > all-taken {
			return outOf(name, wants, taken, all)
		}
	}
	return nil
}

func outOf(name corev1.ResourceName, requested, used, capacity int64) *refusal {
	return &refusal{"OutOf" + string(name), fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, requested, used, capacity)}
}

// inOrder returns the resources that a machine has, then the others by name.
func inOrder(list corev1.ResourceList) []corev1.ResourceName {
	machine := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	var others []corev1.ResourceName
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if !slices.Contains(machine, name) {
			others = append(others, name)
		}
	}
	return append(machine, others...)
}

// extended reports whether a resource is neither Kubernetes' own nor a quota's.
func extended(name corev1.ResourceName) bool {
	text := string(name)
	return strings.Contains(text, "/") && !strings.Contains(text, "kubernetes.io/") && !strings.HasPrefix(text, corev1.DefaultResourceRequestsPrefix)
}

// units are thousandths of CPUs, and whole ones of everything else.
func units(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}
