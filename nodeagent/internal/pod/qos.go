package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// QOS returns the pod's quality-of-service class. The API sets it at
// creation; it is computed only where it is missing.
func QOS(pod *corev1.Pod) corev1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	requests, limits, guaranteed := corev1.ResourceList{}, corev1.ResourceList{}, true
	count := func(r corev1.ResourceRequirements) {
		full := 0
		for _, name := range resizable {
			add(requests, name, r.Requests)
			if add(limits, name, r.Limits) {
				full++
			}
		}
		guaranteed = guaranteed && full == 2
	}
	if whole := Whole(pod); len(whole.Requests)+len(whole.Limits) > 0 { // what its containers ask for does not count then
		count(whole)
	} else {
		for _, c := range containers(pod) {
			count(c.Resources)
		}
	}
	if len(requests) == 0 && len(limits) == 0 {
		return corev1.PodQOSBestEffort
	}
	if guaranteed {
		for name, limit := range limits {
			if request, ok := requests[name]; ok && request.Cmp(limit) != 0 {
				guaranteed = false
			}
		}
	}
	if guaranteed {
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

func add(sum corev1.ResourceList, name corev1.ResourceName, from corev1.ResourceList) bool {
	q, ok := from[name]
	if !ok || q.Cmp(resource.Quantity{}) <= 0 {
		return false
	}
	total := sum[name]
	total.Add(q)
	sum[name] = total
	return true
}
