// Package replicationcontroller keeps as many pods as a ReplicationController asks for. What to do is decided as for a
// ReplicaSet, which has the same fields and a richer selector.
package replicationcontroller

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/replicaset"
)

var kind = corev1.SchemeGroupVersion.WithKind("ReplicationController")

// New returns the controller. metrics may be nil; Kubernetes has those of ReplicaSets and of these in one.
func New(env *controller.Env, metrics *replicaset.Metrics) controller.Unit {
	informer := object.InformerFor(env.Informers, object.ReplicationController, object.Option{})
	return replicaset.NewFor(env, "replication", kind, source{informer, env.Client}, metrics)
}

// source shows ReplicationControllers as ReplicaSets.
type source struct {
	informer *object.Informer[*corev1.ReplicationController]
	client   *object.Client
}

func (s source) Handle(env *controller.Env, change func(old, new *appsv1.ReplicaSet)) {
	controller.Handle(env, s.informer, func(old, new *corev1.ReplicationController) { change(asSet(old), asSet(new)) })
}

func (s source) GetKey(key string) (*appsv1.ReplicaSet, bool) {
	rc, ok := s.informer.GetKey(key)
	return asSet(rc), ok
}

func (s source) List(namespace string) []*appsv1.ReplicaSet {
	list := s.informer.List(namespace)
	sets := make([]*appsv1.ReplicaSet, 0, len(list))
	for _, rc := range list {
		sets = append(sets, asSet(rc))
	}
	return sets
}

// ControlledBy returns nothing: no kind of Kubernetes makes several of these for one purpose.
func (s source) ControlledBy(types.UID) []*appsv1.ReplicaSet { return nil }

func (s source) Trace(rs *appsv1.ReplicaSet) trace.SpanContext {
	return s.informer.Trace(&corev1.ReplicationController{ObjectMeta: rs.ObjectMeta})
}

func (s source) Live(ctx context.Context, namespace, name string) (*appsv1.ReplicaSet, error) {
	rc, err := object.For(s.client, object.ReplicationController).Get(ctx, namespace, name)
	return asSet(rc), err
}

func (s source) WriteStatus(ctx context.Context, rs *appsv1.ReplicaSet) (metav1.Object, error) {
	// What only a ReplicaSet's status has is no reason to write.
	wanted := status(rs.Status)
	if rc, ok := s.informer.Get(rs.Namespace, rs.Name); ok && rc.ResourceVersion == rs.ResourceVersion && apiequality.Semantic.DeepEqual(rc.Status, wanted) {
		return nil, nil
	}
	return object.For(s.client, object.ReplicationController).UpdateStatus(ctx, &corev1.ReplicationController{ObjectMeta: rs.ObjectMeta, Status: wanted})
}

// asSet shows a ReplicationController as a ReplicaSet that shares its parts.
func asSet(rc *corev1.ReplicationController) *appsv1.ReplicaSet {
	if rc == nil {
		return nil
	}
	rs := &appsv1.ReplicaSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind},
		ObjectMeta: rc.ObjectMeta,
		Spec: appsv1.ReplicaSetSpec{
			Replicas: rc.Spec.Replicas, MinReadySeconds: rc.Spec.MinReadySeconds,
			Selector: &metav1.LabelSelector{MatchLabels: rc.Spec.Selector},
		},
		Status: appsv1.ReplicaSetStatus{
			Replicas: rc.Status.Replicas, FullyLabeledReplicas: rc.Status.FullyLabeledReplicas, ReadyReplicas: rc.Status.ReadyReplicas,
			AvailableReplicas: rc.Status.AvailableReplicas, ObservedGeneration: rc.Status.ObservedGeneration,
		},
	}
	if rc.Spec.Template != nil {
		rs.Spec.Template = *rc.Spec.Template
	}
	for _, c := range rc.Status.Conditions {
		rs.Status.Conditions = append(rs.Status.Conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	return rs
}

// status is the status of a set as a ReplicationController has it; that knows nothing of terminating replicas.
func status(s appsv1.ReplicaSetStatus) corev1.ReplicationControllerStatus {
	out := corev1.ReplicationControllerStatus{
		Replicas: s.Replicas, FullyLabeledReplicas: s.FullyLabeledReplicas, ReadyReplicas: s.ReadyReplicas,
		AvailableReplicas: s.AvailableReplicas, ObservedGeneration: s.ObservedGeneration,
	}
	for _, c := range s.Conditions {
		out.Conditions = append(out.Conditions, corev1.ReplicationControllerCondition{
			Type: corev1.ReplicationControllerConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	return out
}
