package kind

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/statefulset"
	"howdah.dev/services/apiserver/internal/registry"
)

// gate has the kinds with pods forget what belongs to the feature gates that are off, as Kubernetes does: after it was noted who set it.
func gate(kinds []*registry.Kind, features map[string]bool) []*registry.Kind {
	for _, k := range kinds {
		if _, pods := podSpec(k.New()); !pods {
			continue
		}
		if _, is := k.New().(*appsv1.StatefulSet); is && features[statefulset.MaxUnavailable] {
			byDefault := k.Default
			k.Default = func(obj registry.Object) {
				byDefault(obj)
				statefulset.DefaultUnavailable(obj)
			}
		}
		create, update := k.PrepareCreate, k.PrepareUpdate
		k.PrepareCreate = func(obj registry.Object) {
			drop(obj, nil, features)
			if create != nil {
				create(obj)
			}
		}
		k.PrepareUpdate = func(obj, old registry.Object) {
			drop(obj, old, features)
			if update != nil {
				update(obj, old)
			}
		}
	}
	return kinds
}

// drop forgets fields of obj whose gates are off, unless old, where there is one, has them.
func drop(obj, old registry.Object, features map[string]bool) {
	before, _ := podSpec(old)
	if spec, _ := podSpec(obj); spec != nil {
		podspec.DropGated(spec, before, features)
	}
	if s, ok := obj.(*appsv1.StatefulSet); ok && !features[statefulset.MaxUnavailable] {
		was, _ := old.(*appsv1.StatefulSet)
		statefulset.DropUnavailable(s, was)
	}
}

// podSpec returns the spec of a pod or of a template of pods, nil where the template is not there. pods is false for all other kinds.
func podSpec(obj registry.Object) (spec *corev1.PodSpec, pods bool) {
	switch o := obj.(type) {
	case *corev1.Pod:
		return &o.Spec, true
	case *corev1.PodTemplate:
		return &o.Template.Spec, true
	case *corev1.ReplicationController:
		if o.Spec.Template == nil {
			return nil, true
		}
		return &o.Spec.Template.Spec, true
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec, true
	case *appsv1.ReplicaSet:
		return &o.Spec.Template.Spec, true
	case *appsv1.StatefulSet:
		return &o.Spec.Template.Spec, true
	case *appsv1.DaemonSet:
		return &o.Spec.Template.Spec, true
	case *batchv1.Job:
		return &o.Spec.Template.Spec, true
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template.Spec, true
	}
	return nil, false
}
