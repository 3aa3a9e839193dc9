package pod

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/kit/podspec"
)

// FromDrivers reports whether a container has a resource that it asks for from the drivers of devices: the scheduler has taken it from them in a claim,
// and not from what the node has.
func FromDrivers(p *corev1.Pod, container string, name corev1.ResourceName) bool {
	s := p.Status.ExtendedResourceClaimStatus
	if s == nil || !podspec.MayBeDevices(name) { // whatever the status says
		return false
	}
	return slices.ContainsFunc(s.RequestMappings, func(m corev1.ContainerExtendedResourceRequest) bool {
		return m.ContainerName == container && m.ResourceName == string(name)
	})
}

// OfTheNode returns a pod without the requests that FromDrivers reports: the node need not have what they are for.
func OfTheNode(p *corev1.Pod) *corev1.Pod {
	if p.Status.ExtendedResourceClaimStatus == nil {
		return p
	}
	p = p.DeepCopy()
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			maps.DeleteFunc(containers[i].Resources.Requests, func(name corev1.ResourceName, _ resource.Quantity) bool {
				return FromDrivers(p, containers[i].Name, name)
			})
		}
	}
	return p
}
