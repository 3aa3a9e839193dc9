// Package podspec has what Pods and all kinds with a pod template share: the
// defaults and the validation of a PodSpec.
package podspec

import corev1 "k8s.io/api/core/v1"

// Default fills the fields of a spec that Kubernetes fills in templates and
// pods alike. DefaultPod fills those of pods only.
func Default(spec *corev1.PodSpec) {
	set(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	set(&spec.DNSPolicy, corev1.DNSClusterFirst)
	set(&spec.SchedulerName, corev1.DefaultSchedulerName)
	setPtr(&spec.TerminationGracePeriodSeconds, int64(corev1.DefaultTerminationGracePeriodSeconds))
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	// serviceAccount is the old name of serviceAccountName; both are shown.
	set(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName

	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
	for i := range spec.InitContainers {
		defaultContainer(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		defaultContainer(&spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		common := corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		defaultContainer(&common)
		spec.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(common)
	}
	if spec.Resources != nil {
		RoundUp(spec.Resources.Limits)
		RoundUp(spec.Resources.Requests)
	}
	RoundUp(spec.Overhead)
}

// DefaultPod fills the fields that Kubernetes fills in pods but leaves open in
// templates: service links, host ports and requests.
func DefaultPod(spec *corev1.PodSpec) {
	Default(spec)
	// A negative number means one second.
	*spec.TerminationGracePeriodSeconds = graceOf(*spec.TerminationGracePeriodSeconds)
	setPtr(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	if spec.HostNetwork {
		defaultHostPorts(spec.Containers)
		defaultHostPorts(spec.InitContainers)
	}
	for i := range spec.Containers {
		requestLimits(&spec.Containers[i].Resources)
	}
	for i := range spec.InitContainers {
		requestLimits(&spec.InitContainers[i].Resources)
	}
	defaultPodPages(spec)
	defaultPodRequests(spec)
}

func graceOf(seconds int64) int64 {
	if seconds < 0 {
		return 1
	}
	return seconds
}

// On the host's network a container's port is the host's.
func defaultHostPorts(containers []corev1.Container) {
	for i := range containers {
		for j := range containers[i].Ports {
			set(&containers[i].Ports[j].HostPort, containers[i].Ports[j].ContainerPort)
		}
	}
}

func defaultContainer(c *corev1.Container) {
	set(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	set(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = pullPolicy(c.Image)
	}
	for i := range c.Ports {
		set(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				setPtr(&from.FileKeyRef.Optional, false)
			}
		}
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(p)
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				defaultHTTPGet(h.HTTPGet)
			}
		}
	}
	RoundUp(c.Resources.Limits)
	RoundUp(c.Resources.Requests)
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	set(&p.TimeoutSeconds, 1)
	set(&p.PeriodSeconds, 10)
	set(&p.SuccessThreshold, 1)
	set(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		setPtr(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(h *corev1.HTTPGetAction) {
	if h == nil {
		return
	}
	set(&h.Path, "/")
	set(&h.Scheme, corev1.URISchemeHTTP)
}

func defaultFieldRef(f *corev1.ObjectFieldSelector) {
	if f != nil {
		set(&f.APIVersion, "v1")
	}
}

// pullPolicy is Always for the tag "latest", said or implied, because what it
// names changes; any other tag or a digest is pulled once, and so is what no image can be named.
func pullPolicy(image string) corev1.PullPolicy {
	if tag, digested := tagOf(image); (tag == "latest" || tag == "" && !digested) && wellFormed(image) {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// set fills an unset field.
func set[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// setPtr fills an unset optional field.
func setPtr[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}
