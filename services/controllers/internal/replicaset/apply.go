package replicaset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/controllers/internal/podcontrol"
)

// apply creates or deletes pods. The failure is what the status should tell;
// the error asks for another try.
func (c *replicaSets) apply(ctx context.Context, rs *appsv1.ReplicaSet, plan Plan) (*Failure, error) {
	switch {
	case plan.Create > 0:
		names := c.control.Names(rs, podcontrol.GenerateName(rs.Name), plan.Create)
		podOf := func(name string) *corev1.Pod { return podOf(rs, c.kind, name) }
		if err := c.control.Create(ctx, rs, names, podOf, lastFailure(rs) != nil); err != nil {
			return &Failure{"FailedCreate", err.Error()}, err
		}
	case len(plan.Delete) > 0:
		if err := c.control.Delete(ctx, rs, plan.Delete); err != nil {
			return &Failure{"FailedDelete", err.Error()}, err
		}
	}
	return nil, nil
}

// podOf returns a pod of the set's template. It shares the template's parts.
func podOf(rs *appsv1.ReplicaSet, kind schema.GroupVersionKind, name string) *corev1.Pod {
	t := &rs.Spec.Template
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: rs.Namespace, Name: name, GenerateName: podcontrol.GenerateName(rs.Name),
			Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, kind)},
		},
		Spec: t.Spec,
	}
}
