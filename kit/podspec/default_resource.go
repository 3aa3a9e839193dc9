package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// RoundUp gives quantities the precision of Kubernetes, thousandths.
func RoundUp(list corev1.ResourceList) {
	for name, q := range list {
		q.RoundUp(resource.Milli)
		list[name] = q
	}
}

// requestLimits requests what is limited but not requested. Where limits are said to be none, requests are, too.
func requestLimits(r *corev1.ResourceRequirements) {
	if r.Limits != nil && r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; !ok {
			r.Requests[name] = limit.DeepCopy()
		}
	}
}

// defaultPodPages limits the pod's huge pages to those of its containers, for a pod that says anything of itself as a whole, but not what
// it requests of them.
func defaultPodPages(spec *corev1.PodSpec) {
	r := spec.Resources
	if r == nil || len(r.Limits) == 0 && len(r.Requests) == 0 {
		return
	}
	for name, sum := range containerLimits(spec) {
		_, limited := r.Limits[name]
		_, requested := r.Requests[name]
		if limited || requested || !hugePages(name) {
			continue
		}
		if r.Limits == nil {
			r.Limits = corev1.ResourceList{}
		}
		r.Limits[name] = sum
	}
}

// defaultPodRequests fills the pod's own requests, for a pod that limits
// itself as a whole: the sum of what its containers request of a resource or,
// when none requests it, the pod's limit. Huge pages cannot be overcommitted,
// so their request is the limit.
func defaultPodRequests(spec *corev1.PodSpec) {
	r := spec.Resources
	if r == nil || len(r.Limits) == 0 {
		return
	}
	sums := containerRequests(spec)
	requests := corev1.ResourceList{}
	for name, q := range r.Requests {
		requests[name] = q
	}
	for name, sum := range sums {
		if _, ok := requests[name]; !ok && podLevel(name) && !hugePages(name) {
			requests[name] = sum
		}
	}
	for name, limit := range r.Limits {
		if _, ok := requests[name]; !ok && podLevel(name) {
			requests[name] = limit.DeepCopy()
		}
	}
	if len(requests) > 0 {
		r.Requests = requests
	}
}

// containerRequests is what the containers need together: the regular ones and
// sidecars at once, or any init container beside the sidecars before it.
func containerRequests(spec *corev1.PodSpec) corev1.ResourceList {
	return together(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
}

// containerLimits is what the containers may take together.
func containerLimits(spec *corev1.PodSpec) corev1.ResourceList {
	return together(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits })
}

func together(spec *corev1.PodSpec, of func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	total := corev1.ResourceList{}
	for i := range spec.Containers {
		add(total, of(&spec.Containers[i]))
	}
	sidecars, peak := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if Sidecar(c) {
			add(sidecars, of(c))
			add(total, of(c))
			most(peak, sidecars)
			continue
		}
		here := sidecars.DeepCopy()
		add(here, of(c))
		most(peak, here)
	}
	most(total, peak)
	return total
}

// Sidecar reports an init container that keeps running.
func Sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func add(to, more corev1.ResourceList) {
	for name, q := range more {
		sum := to[name]
		sum.Add(q)
		to[name] = sum
	}
}

func most(to, other corev1.ResourceList) {
	for name, q := range other {
		if have, ok := to[name]; !ok || q.Cmp(have) > 0 {
			to[name] = q.DeepCopy()
		}
	}
}

// podLevel reports a resource that a pod can ask for as a whole.
func podLevel(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || hugePages(name)
}

func hugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
