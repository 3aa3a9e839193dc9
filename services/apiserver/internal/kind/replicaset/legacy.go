package replicaset

import (
	appsv1 "k8s.io/api/apps/v1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"

	"howdah.dev/services/apiserver/internal/kind/legacy"
	"howdah.dev/services/apiserver/internal/registry"
)

func v1beta2Version() registry.Version {
	return legacy.Version[appsv1beta2.ReplicaSet, appsv1beta2.ReplicaSetList, appsv1.ReplicaSet](
		appsv1beta2.SchemeGroupVersion, appsv1.SchemeGroupVersion, "v1.9", "v1.16", fill)
}

func extensionsVersion() registry.Version {
	return legacy.Version[extensionsv1beta1.ReplicaSet, extensionsv1beta1.ReplicaSetList, appsv1.ReplicaSet](
		extensionsv1beta1.SchemeGroupVersion, appsv1.SchemeGroupVersion, "v1.9", "v1.16", fillFromTemplate)
}
