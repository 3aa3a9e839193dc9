package podspec

import corev1 "k8s.io/api/core/v1"

// The feature gates that fields of a spec go by, with Kubernetes' names.
const (
	featureWorkload       = "GenericWorkload"
	featurePodCertificate = "PodCertificateRequest"
	featureTrustBundle    = "ClusterTrustBundleProjection"
	featureStopSignal     = "ContainerStopSignals"
)

// DropGated forgets the fields that belong to feature gates which are off.
func DropGated(spec *corev1.PodSpec, features map[string]bool) {
	if !features[featureStopSignal] {
		dropStopSignals(spec)
	}
	if !features[featureWorkload] {
		spec.SchedulingGroup = nil
	}
	if !features[featurePodCertificate] {
		eachProjection(spec, func(p *corev1.VolumeProjection) { p.PodCertificate = nil })
	}
	if !features[featureTrustBundle] {
		eachProjection(spec, func(p *corev1.VolumeProjection) { p.ClusterTrustBundle = nil })
	}
}

func dropStopSignals(spec *corev1.PodSpec) {
	for i := range spec.Containers {
		dropStopSignal(&spec.Containers[i].Lifecycle)
	}
	for i := range spec.InitContainers {
		dropStopSignal(&spec.InitContainers[i].Lifecycle)
	}
	for i := range spec.EphemeralContainers {
		dropStopSignal(&spec.EphemeralContainers[i].Lifecycle)
	}
}

func eachProjection(spec *corev1.PodSpec, do func(*corev1.VolumeProjection)) {
	for i := range spec.Volumes {
		p := spec.Volumes[i].Projected
		if p == nil {
			continue
		}
		for j := range p.Sources {
			do(&p.Sources[j])
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
