package plugin

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// eachContainer calls f for the containers of all three sorts. What f changes in an ephemeral one is kept as far as both have it.
func eachContainer(spec *corev1.PodSpec, f func(c *corev1.Container, path *field.Path)) {
	path := field.NewPath("spec")
	for i := range spec.InitContainers {
		f(&spec.InitContainers[i], path.Child("initContainers").Index(i))
	}
	for i := range spec.Containers {
		f(&spec.Containers[i], path.Child("containers").Index(i))
	}
	for i := range spec.EphemeralContainers {
		c := corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		f(&c, path.Child("ephemeralContainers").Index(i))
		spec.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(c)
	}
}

// privileged reports whether a container of the pod is.
func privileged(spec *corev1.PodSpec) bool {
	found := false
	eachContainer(spec, func(c *corev1.Container, _ *field.Path) {
		found = found || c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
	})
	return found
}
