package admit

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"howdah.dev/nodeagent/internal/pod"
)

// resources refuses a pod that asks for more than the others leave: one pod more, then what machines have, then what else nodes can have.
func resources(p *corev1.Pod, s Site) *refusal {
	for short := range shortfalls(p, s) {
		return outOf(short.name, short.wants, short.taken, short.all)
	}
	return nil
}

// shortages are what all of its resources lack.
func shortages(p *corev1.Pod, s Site) needs {
	out := needs{}
	for short := range shortfalls(p, s) {
		out[short.name] = short.wants - (short.all - short.taken)
	}
	return out
}

// shortfall is a resource of which a pod wants more than the others leave, in units.
type shortfall struct {
	name              corev1.ResourceName
	wants, taken, all int64
}

func shortfalls(p *corev1.Pod, s Site) iter.Seq[shortfall] {
	return func(yield func(shortfall) bool) {
		capacity := s.Node.Status.Allocatable
		if most := capacity.Pods().Value(); int64(len(s.Others)) >= most && !yield(shortfall{corev1.ResourcePods, 1, int64(len(s.Others)), most}) {
			return
		}
		asked := resourcehelper.PodRequests(pod.OfTheNode(p), resourcehelper.PodResourcesOptions{})
		used := map[corev1.ResourceName]resource.Quantity{}
		for _, other := range s.Others {
			for name, q := range held(other) {
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
			short := shortfall{name, units(name, asked[name]), units(name, used[name]), units(name, has)}
			if short.wants > 0 && short.wants > short.all-short.taken && !yield(short) {
				return
			}
		}
	}
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
