package podspec

import corev1 "k8s.io/api/core/v1"

// gatedField is a field of a spec that belongs to a feature gate, by Kubernetes' name.
type gatedField struct {
	feature string
	used    func(spec *corev1.PodSpec) bool
	drop    func(spec *corev1.PodSpec)
}

// gatedFields are those of features that are off by default.
var gatedFields = []gatedField{
	{"ContainerStopSignals", hasStopSignal, dropStopSignals},
	{"GenericWorkload", func(s *corev1.PodSpec) bool { return s.SchedulingGroup != nil }, func(s *corev1.PodSpec) { s.SchedulingGroup = nil }},
	projection("PodCertificateRequest", func(p *corev1.VolumeProjection) bool { return p.PodCertificate != nil }, func(p *corev1.VolumeProjection) { p.PodCertificate = nil }),
	projection("ClusterTrustBundleProjection", func(p *corev1.VolumeProjection) bool { return p.ClusterTrustBundle != nil }, func(p *corev1.VolumeProjection) { p.ClusterTrustBundle = nil }),
}

// DropGated forgets the fields that belong to feature gates which are off, unless the spec before, which may be nil, has them: what was stored while a
// gate was on stays, and can be changed.
func DropGated(spec, old *corev1.PodSpec, features map[string]bool) {
	for _, f := range gatedFields {
		if !features[f.feature] && (old == nil || !f.used(old)) {
			f.drop(spec)
		}
	}
}

// projection is a source of projected volumes.
func projection(feature string, used func(*corev1.VolumeProjection) bool, drop func(*corev1.VolumeProjection)) gatedField {
	return gatedField{
		feature,
		func(s *corev1.PodSpec) bool {
			found := false
			eachProjection(s, func(p *corev1.VolumeProjection) { found = found || used(p) })
			return found
		},
		func(s *corev1.PodSpec) { eachProjection(s, drop) },
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

func hasStopSignal(spec *corev1.PodSpec) bool {
	found := false
	everyContainer(spec, func(c *corev1.Container) { found = found || c.Lifecycle != nil && c.Lifecycle.StopSignal != nil })
	return found
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

func dropStopSignal(p **corev1.Lifecycle) {
	l := *p
	if l == nil || l.StopSignal == nil {
		return
	}
	if l.StopSignal = nil; l.PreStop == nil && l.PostStart == nil {
		*p = nil
	}
}
