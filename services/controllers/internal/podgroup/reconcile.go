package podgroup

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

// Kind is that of groups.
var Kind = object.Kind[*schedulingv1alpha2.PodGroup]{
	GVK: schedulingv1alpha2.SchemeGroupVersion.WithKind("PodGroup"), Resource: "podgroups", Namespaced: true,
	New: func() *schedulingv1alpha2.PodGroup { return &schedulingv1alpha2.PodGroup{} },
}

type protection struct {
	client *object.Client
	groups *object.Informer[*schedulingv1alpha2.PodGroup]
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	c := &protection{client: env.Client, groups: object.InformerFor(env.Informers, Kind)}
	queue := reconcile.New(reconcile.Config{Name: "podgroup", Kind: "PodGroup", Reconcile: c.reconcile, Metrics: env.Metrics})
	controller.Handle(env, c.groups, func(_, new *schedulingv1alpha2.PodGroup) {
		if new != nil && new.DeletionTimestamp != nil {
			queue.Enqueue(object.KeyOf(new), c.groups.Trace(new))
		}
	})
	pods := env.Pods()
	controller.Handle(env, pods, func(old, new *corev1.Pod) {
		if old == nil || groupOf(old) == "" || new != nil && old.Status.Phase == new.Status.Phase {
			return
		}
		if group, ok := c.groups.Get(old.Namespace, groupOf(old)); ok && group.DeletionTimestamp != nil {
			queue.Enqueue(object.KeyOf(group), pods.Trace(old))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{queue}}
}

// reconcile lets a group go. The pods are read as of now: one that was made a moment ago would lose its group.
func (c *protection) reconcile(ctx context.Context, key string) (time.Duration, error) {
	group, ok := c.groups.GetKey(key)
	if !ok || !Free(group, nil) {
		return 0, nil
	}
	pods, _, err := object.For(c.client, object.Pod).List(ctx, group.Namespace, metav1.ListOptions{})
	if err != nil || !Free(group, pods) {
		return 0, err
	}
	group = group.DeepCopy()
	group.Finalizers = slices.DeleteFunc(group.Finalizers, func(f string) bool { return f == Finalizer })
	_, err = object.For(c.client, Kind).Update(ctx, group)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // the next event sets it right
		return 0, nil
	}
	return 0, err
}
