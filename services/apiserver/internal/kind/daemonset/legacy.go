package daemonset

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"

	"howdah.dev/services/apiserver/internal/kind/legacy"
	"howdah.dev/services/apiserver/internal/registry"
)

func v1beta2Version() registry.Version {
	return legacy.Version[appsv1beta2.DaemonSet, appsv1beta2.DaemonSetList, appsv1.DaemonSet](appsv1beta2.SchemeGroupVersion, appsv1.SchemeGroupVersion,
		"v1.9", "v1.16", func(d *appsv1.DaemonSet) { fill(d, appsv1.RollingUpdateDaemonSetStrategyType) })
}

func extensionsVersion() registry.Version {
	v := legacy.Version[extensionsv1beta1.DaemonSet, extensionsv1beta1.DaemonSetList, appsv1.DaemonSet](extensionsv1beta1.SchemeGroupVersion, appsv1.SchemeGroupVersion,
		"v1.9", "v1.16", func(d *appsv1.DaemonSet) {
			fillFromTemplate(d)
			fill(d, appsv1.OnDeleteDaemonSetStrategyType)
		})
	toStored, fromStored, fill := v.ToStored, v.FromStored, v.Default
	v.ToStored = func(in registry.Object) (registry.Object, error) {
		out, err := toStored(in)
		if n := in.(*extensionsv1beta1.DaemonSet).Spec.TemplateGeneration; err == nil && n != 0 {
			setTemplateGeneration(out.(*appsv1.DaemonSet), n)
		}
		return out, err
	}
	v.FromStored = func(in registry.Object) (registry.Object, error) {
		out, err := fromStored(in)
		if n := templateGeneration(in.(*appsv1.DaemonSet)); err == nil && n != 0 {
			d := out.(*extensionsv1beta1.DaemonSet)
			d.Spec.TemplateGeneration = n
			if d.Annotations = maps.Clone(d.Annotations); len(d.Annotations) == 1 {
				d.Annotations = nil
			}
			delete(d.Annotations, appsv1.DeprecatedTemplateGeneration)
		}
		return out, err
	}
	// The defaults are set in the stored form, which has no such field.
	v.Default = func(obj registry.Object) {
		n := obj.(*extensionsv1beta1.DaemonSet).Spec.TemplateGeneration
		fill(obj)
		obj.(*extensionsv1beta1.DaemonSet).Spec.TemplateGeneration = n
	}
	return v
}
