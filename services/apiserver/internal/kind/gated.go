package kind

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/apiserver/internal/kind/podspec"
	"howdah.dev/services/apiserver/internal/registry"
)

// gate has the kinds with pods forget what belongs to the feature gates that are off, as Kubernetes does: after it was noted who set it.
func gate(kinds []*registry.Kind, features map[string]bool) []*registry.Kind {
	drop := func(obj registry.Object) {
		if spec := podSpec(obj); spec != nil {
			podspec.DropGated(spec, features)
		}
		if s, ok := obj.(*appsv1.StatefulSet); ok && s.Spec.UpdateStrategy.RollingUpdate != nil {
			s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = nil // Kubernetes has MaxUnavailableStatefulSet off by default
		}
	}
	for _, k := range kinds {
		if !keepsPods(k) {
			continue
		}
		create, update := k.PrepareCreate, k.PrepareUpdate
		k.PrepareCreate = func(obj registry.Object) {
			drop(obj)
			if create != nil {
				create(obj)
			}
		}
		k.PrepareUpdate = func(obj, old registry.Object) {
			drop(obj)
			if update != nil {
				update(obj, old)
			}
		}
	}
	return kinds
}

// keepsPods reports whether objects of the kind are pods or have a template of pods.
func keepsPods(k *registry.Kind) bool {
	switch k.New().(type) {
	case *corev1.Pod, *corev1.PodTemplate, *corev1.ReplicationController, *appsv1.Deployment, *appsv1.ReplicaSet, *appsv1.StatefulSet,
		*appsv1.DaemonSet, *batchv1.Job, *batchv1.CronJob:
		return true
	}
	return false
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
