package kind

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/apiserver/internal/kind/podspec"
	"howdah.dev/services/apiserver/internal/registry"
)

// gate has the kinds with pods forget what belongs to the feature gates that are off.
func gate(kinds []*registry.Kind, features map[string]bool) []*registry.Kind {
	for _, k := range kinds {
		fill := k.Default
		if fill == nil {
			continue
		}
		k.Default = func(obj registry.Object) {
			if spec := podSpec(obj); spec != nil {
				podspec.DropGated(spec, features)
			}
			fill(obj)
		}
	}
	return kinds
}

// podSpec is the spec of the pods that an object is of, or nil.
func podSpec(obj registry.Object) *corev1.PodSpec {
	switch o := obj.(type) {
	case *corev1.Pod:
		return &o.Spec
	case *corev1.PodTemplate:
		return &o.Template.Spec
	case *corev1.ReplicationController:
		if o.Spec.Template != nil {
			return &o.Spec.Template.Spec
		}
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec
	case *appsv1.ReplicaSet:
		return &o.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return &o.Spec.Template.Spec
	case *appsv1.DaemonSet:
		return &o.Spec.Template.Spec
	case *batchv1.Job:
		return &o.Spec.Template.Spec
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template.Spec
	}
	return nil
}
