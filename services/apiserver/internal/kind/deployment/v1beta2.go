package deployment

import (
	appsv1 "k8s.io/api/apps/v1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

func v1beta2Version() registry.Version {
	return registry.Version{
		GVK:     appsv1beta2.SchemeGroupVersion.WithKind("Deployment"),
		New:     func() registry.Object { return &appsv1beta2.Deployment{} },
		NewList: func() runtime.Object { return &appsv1beta2.DeploymentList{} },
		Default: typed.Do(func(in *appsv1beta2.Deployment) {
			d := fromV1beta2(in)
			appsV1beta2.fill(d)
			*in = *toV1beta2(d)
		}),
		ToStored:   typed.Convert(fromV1beta2),
		FromStored: typed.Convert(toV1beta2),
		Deprecated: "apps/v1beta2 Deployment is deprecated in v1.9+, unavailable in v1.16+; use apps/v1 Deployment",
	}
}

// This version has no rollbackTo; the annotation that keeps it stays an annotation.
func fromV1beta2(in *appsv1beta2.Deployment) *appsv1.Deployment {
	s, t := &in.Spec, &in.Status
	out := &appsv1.Deployment{
		ObjectMeta: in.ObjectMeta,
		Spec: appsv1.DeploymentSpec{
			Replicas: s.Replicas, Selector: s.Selector, Template: s.Template,
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.DeploymentStrategyType(s.Strategy.Type),
				RollingUpdate: (*appsv1.RollingUpdateDeployment)(s.Strategy.RollingUpdate),
			},
			MinReadySeconds: s.MinReadySeconds, RevisionHistoryLimit: s.RevisionHistoryLimit,
			Paused: s.Paused, ProgressDeadlineSeconds: s.ProgressDeadlineSeconds,
		},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: t.ObservedGeneration, Replicas: t.Replicas, UpdatedReplicas: t.UpdatedReplicas,
			ReadyReplicas: t.ReadyReplicas, AvailableReplicas: t.AvailableReplicas,
			UnavailableReplicas: t.UnavailableReplicas, TerminatingReplicas: t.TerminatingReplicas,
			CollisionCount: t.CollisionCount,
		},
	}
	out.SetGroupVersionKind(stored)
	for _, c := range t.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, appsv1.DeploymentCondition{
			Type: appsv1.DeploymentConditionType(c.Type), Status: c.Status, LastUpdateTime: c.LastUpdateTime,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	return out
}

func toV1beta2(in *appsv1.Deployment) *appsv1beta2.Deployment {
	s, t := &in.Spec, &in.Status
	out := &appsv1beta2.Deployment{
		ObjectMeta: in.ObjectMeta,
		Spec: appsv1beta2.DeploymentSpec{
			Replicas: s.Replicas, Selector: s.Selector, Template: s.Template,
			Strategy: appsv1beta2.DeploymentStrategy{
				Type:          appsv1beta2.DeploymentStrategyType(s.Strategy.Type),
				RollingUpdate: (*appsv1beta2.RollingUpdateDeployment)(s.Strategy.RollingUpdate),
			},
			MinReadySeconds: s.MinReadySeconds, RevisionHistoryLimit: s.RevisionHistoryLimit,
			Paused: s.Paused, ProgressDeadlineSeconds: s.ProgressDeadlineSeconds,
		},
		Status: appsv1beta2.DeploymentStatus{
			ObservedGeneration: t.ObservedGeneration, Replicas: t.Replicas, UpdatedReplicas: t.UpdatedReplicas,
			ReadyReplicas: t.ReadyReplicas, AvailableReplicas: t.AvailableReplicas,
			UnavailableReplicas: t.UnavailableReplicas, TerminatingReplicas: t.TerminatingReplicas,
			CollisionCount: t.CollisionCount,
		},
	}
	out.SetGroupVersionKind(appsv1beta2.SchemeGroupVersion.WithKind("Deployment"))
	for _, c := range t.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, appsv1beta2.DeploymentCondition{
			Type: appsv1beta2.DeploymentConditionType(c.Type), Status: c.Status, LastUpdateTime: c.LastUpdateTime,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	return out
}
