package replicaset

import (
	appsv1 "k8s.io/api/apps/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

func extensionsVersion() registry.Version {
	return registry.Version{
		GVK:     extensionsv1beta1.SchemeGroupVersion.WithKind("ReplicaSet"),
		New:     func() registry.Object { return &extensionsv1beta1.ReplicaSet{} },
		NewList: func() runtime.Object { return &extensionsv1beta1.ReplicaSetList{} },
		Default: typed.Do(func(in *extensionsv1beta1.ReplicaSet) {
			rs := fromExtensions(in)
			fillFromTemplate(rs)
			*in = *toExtensions(rs)
		}),
		ToStored:   typed.Convert(fromExtensions),
		FromStored: typed.Convert(toExtensions),
		Deprecated: "extensions/v1beta1 ReplicaSet is deprecated in v1.9+, unavailable in v1.16+; use apps/v1 ReplicaSet",
	}
}

// The type meta of what comes out says the version.
func fromExtensions(in *extensionsv1beta1.ReplicaSet) *appsv1.ReplicaSet {
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

func toExtensions(in *appsv1.ReplicaSet) *extensionsv1beta1.ReplicaSet {
	t := &in.Status
	out := &extensionsv1beta1.ReplicaSet{
		ObjectMeta: in.ObjectMeta,
		Spec:       extensionsv1beta1.ReplicaSetSpec(in.Spec),
		Status: extensionsv1beta1.ReplicaSetStatus{
			Replicas: t.Replicas, FullyLabeledReplicas: t.FullyLabeledReplicas, ReadyReplicas: t.ReadyReplicas,
			AvailableReplicas: t.AvailableReplicas, TerminatingReplicas: t.TerminatingReplicas,
			ObservedGeneration: t.ObservedGeneration,
		},
	}
	out.SetGroupVersionKind(extensionsv1beta1.SchemeGroupVersion.WithKind("ReplicaSet"))
	for _, c := range t.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, extensionsv1beta1.ReplicaSetCondition{
			Type: extensionsv1beta1.ReplicaSetConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	return out
}
