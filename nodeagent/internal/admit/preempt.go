package admit

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"howdah.dev/kit/podspec"
	"howdah.dev/nodeagent/internal/pod"
)

// Preempted is why the others end that Preempt names.
func Preempted() *pod.Failure {
	const message = "Preempted in order to admit critical pod"
	return &pod.Failure{Reason: "Preempting", Message: message, Disruption: "Pod was preempted by Kubelet to accommodate a critical pod."}
}

// Preempt returns which of the others have to end so that the node can take a pod of the system's priorities; none where it is refused
// for more than the resources that it asks for, or where they are not enough. Those of a better quality of service end only for what
// all of the lesser ones do not have, and as few as give what is missing.
func Preempt(p *corev1.Pod, s Site) []*corev1.Pod {
	if !pod.Critical(p) || refused(p, s, early) != nil || refused(p, s, late) != nil {
		return nil
	}
	classes := [3][]*corev1.Pod{}
	for _, other := range s.Others {
		if !yields(other, p) {
			continue
		}
		at := slices.Index([]corev1.PodQOSClass{corev1.PodQOSBestEffort, corev1.PodQOSBurstable, corev1.PodQOSGuaranteed}, podspec.QOSClass(other))
		classes[at] = append(classes[at], other)
	}
	missing := shortages(p, s)
	var victims []*corev1.Pod
	for i := len(classes) - 1; i >= 0; i-- {
		left := missing.without(victims)
		for _, lesser := range classes[:i] {
			left = left.without(lesser)
		}
		chosen, enough := closest(classes[i], left)
		if !enough {
			return nil
		}
		victims = append(victims, chosen...)
	}
	return victims
}

// yields says whether a pod may end for another, which is critical: it is not, or less so.
func yields(p, to *corev1.Pod) bool {
	return !pod.Critical(p) || p.Spec.Priority != nil && to.Spec.Priority != nil && *p.Spec.Priority < *to.Spec.Priority
}

// closest picks, one after the other, the pod that leaves least of the needs, of two alike the smaller, until nothing is left of them.
func closest(pods []*corev1.Pod, left needs) (chosen []*corev1.Pod, enough bool) {
	pods = slices.Clone(pods)
	for len(left) > 0 {
		if len(pods) == 0 {
			return nil, false
		}
		best := slices.MinFunc(pods, func(a, b *corev1.Pod) int {
			if d := left.distance(a) - left.distance(b); d != 0 {
				return int(math.Copysign(1, d))
			}
			for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU} {
				if d := has(a, name) - has(b, name); d != 0 {
					return int(math.Copysign(1, float64(d)))
				}
			}
			return 0
		})
		chosen = append(chosen, best)
		left = left.without([]*corev1.Pod{best})
		pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return p == best })
	}
	return chosen, true
}

// needs are what a pod lacks, in units; none of them is zero.
type needs map[corev1.ResourceName]int64

// without is what is still lacking when the pods have ended.
func (n needs) without(pods []*corev1.Pod) needs {
	out := needs{}
	for name, amount := range n {
		for _, p := range pods {
			amount -= has(p, name)
		}
		if amount > 0 {
			out[name] = amount
		}
	}
	return out
}

// distance is how far the pod's end leaves us from what we need: the sum of the squares of what is lacking then, as shares of what is lacking now.
func (n needs) distance(p *corev1.Pod) float64 {
	sum := 0.0
	for name, amount := range n {
		if rest := float64(amount - has(p, name)); rest > 0 {
			sum += (rest / float64(amount)) * (rest / float64(amount))
		}
	}
	return sum
}

// has is what a pod that runs holds of a resource, in units.
func has(p *corev1.Pod, name corev1.ResourceName) int64 {
	if name == corev1.ResourcePods {
		return 1
	}
	return units(name, held(p)[name])
}

// held counts as the scheduler does: the larger of what a pod asks for and what it was given.
func held(p *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true})
}
