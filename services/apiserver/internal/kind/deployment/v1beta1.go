package deployment

import (
	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

func v1beta1Version() registry.Version {
	return registry.Version{
		GVK:     appsv1beta1.SchemeGroupVersion.WithKind("Deployment"),
		New:     func() registry.Object { return &appsv1beta1.Deployment{} },
		NewList: func() runtime.Object { return &appsv1beta1.DeploymentList{} },
		Default: typed.Do(func(in *appsv1beta1.Deployment) {
			d := fromV1beta1(in)
			appsV1beta1.fill(d)
			*in = *toV1beta1(d)
		}),
		ToStored:   typed.Convert(fromV1beta1),
		FromStored: typed.Convert(toV1beta1),
		Deprecated: "apps/v1beta1 Deployment is deprecated in v1.9+, unavailable in v1.16+; use apps/v1 Deployment",
	}
}

// The three older versions have the same shape and types of their own.
func fromV1beta1(in *appsv1beta1.Deployment) *appsv1.Deployment {
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
	if s.RollbackTo != nil {
		keepRollback(out, s.RollbackTo.Revision)
	}
	return out
}

func toV1beta1(in *appsv1.Deployment) *appsv1beta1.Deployment {
	s, t := &in.Spec, &in.Status
	out := &appsv1beta1.Deployment{
		ObjectMeta: in.ObjectMeta,
		Spec: appsv1beta1.DeploymentSpec{
			Replicas: s.Replicas, Selector: s.Selector, Template: s.Template,
			Strategy: appsv1beta1.DeploymentStrategy{
				Type:          appsv1beta1.DeploymentStrategyType(s.Strategy.Type),
				RollingUpdate: (*appsv1beta1.RollingUpdateDeployment)(s.Strategy.RollingUpdate),
			},
			MinReadySeconds: s.MinReadySeconds, RevisionHistoryLimit: s.RevisionHistoryLimit,
			Paused: s.Paused, ProgressDeadlineSeconds: s.ProgressDeadlineSeconds,
		},
		Status: appsv1beta1.DeploymentStatus{
			ObservedGeneration: t.ObservedGeneration, Replicas: t.Replicas, UpdatedReplicas: t.UpdatedReplicas,
			ReadyReplicas: t.ReadyReplicas, AvailableReplicas: t.AvailableReplicas,
			UnavailableReplicas: t.UnavailableReplicas, TerminatingReplicas: t.TerminatingReplicas,
			CollisionCount: t.CollisionCount,
		},
	}
	out.SetGroupVersionKind(appsv1beta1.SchemeGroupVersion.WithKind("Deployment"))
	for _, c := range t.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, appsv1beta1.DeploymentCondition{
			Type: appsv1beta1.DeploymentConditionType(c.Type), Status: c.Status, LastUpdateTime: c.LastUpdateTime,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	if revision, annotations, ok := takeRollback(in); ok {
		out.Annotations = annotations
		out.Spec.RollbackTo = &appsv1beta1.RollbackConfig{Revision: revision}
	}
	return out
}
