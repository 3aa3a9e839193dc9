package podspec

import corev1 "k8s.io/api/core/v1"

// dropDisabled forgets the fields that belong to features which Kubernetes 1.36 has off by default:
// GenericWorkload, ContainerStopSignals, ClusterTrustBundleProjection and PodCertificateRequest.
func dropDisabled(spec *corev1.PodSpec) {
	spec.SchedulingGroup = nil
	for i := range spec.Containers {
		dropStopSignal(&spec.Containers[i].Lifecycle)
	}
	for i := range spec.InitContainers {
		dropStopSignal(&spec.InitContainers[i].Lifecycle)
	}
	for i := range spec.EphemeralContainers {
		dropStopSignal(&spec.EphemeralContainers[i].Lifecycle)
	}
	for i := range spec.Volumes {
		p := spec.Volumes[i].Projected
		if p == nil {
			continue
		}
		for j := range p.Sources {
			p.Sources[j].ClusterTrustBundle, p.Sources[j].PodCertificate = nil, nil
		}
	}
}

func dropStopSignal(p **corev1.Lifecycle) {
	l := *p
	if l == nil || l.StopSignal == nil {
		return
	}
	if l.StopSignal = nil; l.PreStop == nil && l.PostStart == nil {
		*p = nil
	}
}
