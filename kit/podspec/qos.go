package podspec

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
)

// QOSClass is the pod's quality-of-service class: the one that its status names, which the API sets at creation, or what follows from its spec.
func QOSClass(pod *corev1.Pod) corev1.PodQOSClass {
	return cmp.Or(pod.Status.QOSClass, QOSClassOf(&pod.Spec))
}

// QOSClassOf is BestEffort when nothing asks for CPU or memory, Guaranteed when everything limits both and requests just
// that, Burstable otherwise. A pod with resources of its own is judged by those. Source: Kubernetes' page "Pod Quality of Service Classes".
func QOSClassOf(spec *corev1.PodSpec) corev1.PodQOSClass {
	if r := spec.Resources; r != nil { // even where it says nothing, as with Kubernetes' API
		if !asks(r.Requests) && !asks(r.Limits) {
			return corev1.PodQOSBestEffort
		}
		if guaranteed(r) {
			return corev1.PodQOSGuaranteed
		}
		return corev1.PodQOSBurstable
	}
	any, all := false, true
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			r := &list[i].Resources
			any = any || asks(r.Requests) || asks(r.Limits)
			all = all && guaranteed(r)
		}
	}
	switch {
	case !any:
		return corev1.PodQOSBestEffort
	case all:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// qosResources are those that decide a class.
var qosResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

func asks(list corev1.ResourceList) bool {
	for _, name := range qosResources {
		if q, ok := list[name]; ok && q.Sign() > 0 {
			return true
		}
	}
	return false
}

func guaranteed(r *corev1.ResourceRequirements) bool {
	for _, name := range qosResources {
		limit, ok := r.Limits[name]
		if !ok || limit.Sign() <= 0 {
			return false
		}
		if request, ok := r.Requests[name]; ok && request.Cmp(limit) != 0 { // where none is said, the limit is
			return false
		}
	}
	return true
}
