package deployment

import (
	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"

	"howdah.dev/services/apiserver/internal/kind/legacy"
	"howdah.dev/services/apiserver/internal/registry"
)

// deprecated and removed are the versions of Kubernetes in which the older versions were.
const deprecated, removed = "v1.9", "v1.16"

// This version has no rollbackTo; the annotation that keeps it stays an annotation.
func v1beta2Version() registry.Version {
	return legacy.Version[appsv1beta2.Deployment, appsv1beta2.DeploymentList, appsv1.Deployment](
		appsv1beta2.SchemeGroupVersion, appsv1.SchemeGroupVersion, deprecated, removed, appsV1beta2.fill)
}

func v1beta1Version() registry.Version {
	return rollback[*appsv1beta1.Deployment]{
		get: func(d *appsv1beta1.Deployment) *int64 {
			if d.Spec.RollbackTo == nil {
				return nil
			}
			return &d.Spec.RollbackTo.Revision
		},
		set: func(d *appsv1beta1.Deployment, revision int64) {
			d.Spec.RollbackTo = &appsv1beta1.RollbackConfig{Revision: revision}
		},
	}.keptIn(legacy.Version[appsv1beta1.Deployment, appsv1beta1.DeploymentList, appsv1.Deployment](
		appsv1beta1.SchemeGroupVersion, appsv1.SchemeGroupVersion, deprecated, removed, appsV1beta1.fill))
}

func extensionsVersion() registry.Version {
	return rollback[*extensionsv1beta1.Deployment]{
		get: func(d *extensionsv1beta1.Deployment) *int64 {
			if d.Spec.RollbackTo == nil {
				return nil
			}
			return &d.Spec.RollbackTo.Revision
		},
		set: func(d *extensionsv1beta1.Deployment, revision int64) {
			d.Spec.RollbackTo = &extensionsv1beta1.RollbackConfig{Revision: revision}
		},
	}.keptIn(legacy.Version[extensionsv1beta1.Deployment, extensionsv1beta1.DeploymentList, appsv1.Deployment](
		extensionsv1beta1.SchemeGroupVersion, appsv1.SchemeGroupVersion, deprecated, removed, extensions.fill))
}
