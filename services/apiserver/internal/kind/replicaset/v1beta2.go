package replicaset

import (
	appsv1 "k8s.io/api/apps/v1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

func v1beta2Version() registry.Version {
	return registry.Version{
		GVK:     appsv1beta2.SchemeGroupVersion.WithKind("ReplicaSet"),
		New:     func() registry.Object { return &appsv1beta2.ReplicaSet{} },
		NewList: func() runtime.Object { return &appsv1beta2.ReplicaSetList{} },
		Default: typed.Do(func(in *appsv1beta2.ReplicaSet) {
			rs := fromV1beta2(in)
			fill(rs)
			*in = *toV1beta2(rs)
		}),
		ToStored:   typed.Convert(fromV1beta2),
		FromStored: typed.Convert(toV1beta2),
		Deprecated: "apps/v1beta2 ReplicaSet is deprecated in v1.9+, unavailable in v1.16+; use apps/v1 ReplicaSet",
	}
}

// The shape is that of apps/v1; only the types differ.
func fromV1beta2(in *appsv1beta2.ReplicaSet) *appsv1.ReplicaSet {
	t := &in.Status
	out := &appsv1.ReplicaSet{
		ObjectMeta: in.ObjectMeta,
		Spec:       appsv1.ReplicaSetSpec(in.Spec),
		Status: appsv1.ReplicaSetStatus{
			Replicas: t.Replicas, FullyLabeledReplicas: t.FullyLabeledReplicas, ReadyReplicas: t.ReadyReplicas,
			AvailableReplicas: t.AvailableReplicas, TerminatingReplicas: t.TerminatingReplicas,
			ObservedGeneration: t.ObservedGeneration,
		},
	}
	out.SetGroupVersionKind(stored)
	for _, c := range t.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	return out
}

func toV1beta2(in *appsv1.ReplicaSet) *appsv1beta2.ReplicaSet {
	t := &in.Status
	out := &appsv1beta2.ReplicaSet{
		ObjectMeta: in.ObjectMeta,
		Spec:       appsv1beta2.ReplicaSetSpec(in.Spec),
		Status: appsv1beta2.ReplicaSetStatus{
			Replicas: t.Replicas, FullyLabeledReplicas: t.FullyLabeledReplicas, ReadyReplicas: t.ReadyReplicas,
			AvailableReplicas: t.AvailableReplicas, TerminatingReplicas: t.TerminatingReplicas,
			ObservedGeneration: t.ObservedGeneration,
		},
	}
	out.SetGroupVersionKind(appsv1beta2.SchemeGroupVersion.WithKind("ReplicaSet"))
	for _, c := range t.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, appsv1beta2.ReplicaSetCondition{
			Type: appsv1beta2.ReplicaSetConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	return out
}
