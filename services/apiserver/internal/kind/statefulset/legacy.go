package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"

	"howdah.dev/services/apiserver/internal/kind/legacy"
	"howdah.dev/services/apiserver/internal/registry"
)

func v1beta2Version() registry.Version {
	return legacy.Version[appsv1beta2.StatefulSet, appsv1beta2.StatefulSetList, appsv1.StatefulSet](appsv1beta2.SchemeGroupVersion, appsv1.SchemeGroupVersion,
		"v1.9", "v1.16", func(s *appsv1.StatefulSet) { fill(s, appsv1.RollingUpdateStatefulSetStrategyType) })
}

func v1beta1Version() registry.Version {
	return legacy.Version[appsv1beta1.StatefulSet, appsv1beta1.StatefulSetList, appsv1.StatefulSet](appsv1beta1.SchemeGroupVersion, appsv1.SchemeGroupVersion,
		"v1.9", "v1.16", func(s *appsv1.StatefulSet) {
			fillFromTemplate(s)
			fill(s, appsv1.OnDeleteStatefulSetStrategyType)
		})
}
