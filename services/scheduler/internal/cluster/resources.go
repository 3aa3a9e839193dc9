// Package cluster is the scheduler's picture of the nodes: immutable nodes
// with the sums of what their pods ask for, kept up to date change by change.
package cluster

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// Resources are amounts: millicores, bytes, pods, and units of extended
// resources.
type Resources struct {
	MilliCPU, Memory, EphemeralStorage int64
	Pods                               int64
	Extended                           map[corev1.ResourceName]int64
}

// Defaults that the scores (not the filters) assume for containers without
// requests, as Kubernetes does: 100 millicores and 200 MiB.
const (
	defaultMilliCPU = 100
	defaultMemory   = 200 << 20
)

// resourcesOf turns a list as in a node's allocatable into amounts.
func resourcesOf(list corev1.ResourceList) Resources {
	var r Resources
	for name, quantity := range list {
		switch name {
		case corev1.ResourceCPU:
			r.MilliCPU = quantity.MilliValue()
		case corev1.ResourceMemory:
			r.Memory = quantity.Value()
		case corev1.ResourceEphemeralStorage:
			r.EphemeralStorage = quantity.Value()
		case corev1.ResourcePods:
			r.Pods = quantity.Value()
		default:
			if r.Extended == nil {
				r.Extended = map[corev1.ResourceName]int64{}
			}
			r.Extended[name] = quantity.Value()
		}
	}
	return r
}

// Requests returns what a pod takes of its node: init containers, sidecars
// and overhead included, as in Kubernetes' resource accounting. Extended
// resources that the pod has got as devices are not the node's.
func Requests(pod *corev1.Pod) Resources {
	r := resourcesOf(resource.PodRequests(pod, resource.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}))
	r.Pods = 1
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil && pod.Spec.NodeName != "" {
		for _, m := range s.RequestMappings { // a node gives all of a resource, or none
			delete(r.Extended, corev1.ResourceName(m.ResourceName))
		}
	}
	return r
}

// ScoredRequests returns the requests of a pod on a node with defaults for what is unset. A pod that requests something as a whole has them for what
// none of its containers requests.
func ScoredRequests(pod *corev1.Pod) Resources {
	options := resource.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true, NonMissingContainerRequests: defaults()}
	if resource.IsPodLevelRequestsSet(pod) {
		requested := Requests(pod)
		if requested.MilliCPU > 0 {
			delete(options.NonMissingContainerRequests, corev1.ResourceCPU)
		}
		if requested.Memory > 0 {
			delete(options.NonMissingContainerRequests, corev1.ResourceMemory)
		}
	}
	r := resourcesOf(resource.PodRequests(pod, options))
	r.Pods = 1
	return r
}

// RatedRequests returns the requests by which nodes are rated for a pod that is on none: those of its containers, with defaults for what is unset. What
// it requests as a whole counts only once it is placed: so Kubernetes 1.36 has it.
func RatedRequests(pod *corev1.Pod) Resources {
	return resourcesOf(resource.PodRequests(pod, resource.PodResourcesOptions{SkipPodLevelResources: true, NonMissingContainerRequests: defaults()}))
}

func defaults() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: *milliQuantity(defaultMilliCPU), corev1.ResourceMemory: *quantity(defaultMemory)}
}

// Demand is what a pod asks for, worked out once: it is costly, and asked
// for whenever the pod moves.
type Demand struct {
	Requests, Scored Resources
	// Wishes are the pod's own of those who come near it; nil for none.
	Wishes *Wishes
}

// DemandOf returns what a pod asks for.
func DemandOf(pod *corev1.Pod) Demand {
	return Demand{Requests: Requests(pod), Scored: ScoredRequests(pod), Wishes: WishesOf(pod)}
}

// below reports whether there is less of anything than in o.
func (r Resources) below(o Resources) bool {
	if r.MilliCPU < o.MilliCPU || r.Memory < o.Memory || r.EphemeralStorage < o.EphemeralStorage {
		return true
	}
	for name, amount := range o.Extended {
		if r.Extended[name] < amount {
			return true
		}
	}
	return false
}

// Exceeds reports whether there is more than in o of anything that is wanted.
func (r Resources) Exceeds(o, wanted Resources) bool {
	if r.Pods > o.Pods || wanted.MilliCPU > 0 && r.MilliCPU > o.MilliCPU || wanted.Memory > 0 && r.Memory > o.Memory ||
		wanted.EphemeralStorage > 0 && r.EphemeralStorage > o.EphemeralStorage {
		return true
	}
	for name, amount := range wanted.Extended {
		if amount > 0 && r.Extended[name] > o.Extended[name] {
			return true
		}
	}
	return false
}

// plus returns r + sign*o as a value of its own.
func (r Resources) plus(o Resources, sign int64) Resources {
	sum := Resources{
		MilliCPU:         r.MilliCPU + sign*o.MilliCPU,
		Memory:           r.Memory + sign*o.Memory,
		EphemeralStorage: r.EphemeralStorage + sign*o.EphemeralStorage,
		Pods:             r.Pods + sign*o.Pods,
		Extended:         r.Extended,
	}
	if len(o.Extended) == 0 {
		return sum
	}
	sum.Extended = make(map[corev1.ResourceName]int64, len(r.Extended)+len(o.Extended))
	for name, amount := range r.Extended {
		sum.Extended[name] = amount
	}
	for name, amount := range o.Extended {
		sum.Extended[name] += sign * amount
	}
	return sum
}
