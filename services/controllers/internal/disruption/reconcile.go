package disruption

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/discovery"
)

// The kinds that are not the client's own.
var (
	setKind = object.Kind[*appsv1.StatefulSet]{
		GVK: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), Resource: "statefulsets", Namespaced: true,
		New: func() *appsv1.StatefulSet { return &appsv1.StatefulSet{} },
	}
	replicationKind = object.Kind[*corev1.ReplicationController]{
		GVK: corev1.SchemeGroupVersion.WithKind("ReplicationController"), Resource: "replicationcontrollers", Namespaced: true,
		New: func() *corev1.ReplicationController { return &corev1.ReplicationController{} },
	}
)

// gather is how long changes of pods are gathered before a budget is looked at again.
const gather = 20 * time.Millisecond

// disruption reconciles budgets.
type disruption struct {
	client      *object.Client
	budgets     *object.Informer[*policyv1.PodDisruptionBudget]
	pods        *object.Informer[*corev1.Pod]
	deployments *object.Informer[*appsv1.Deployment]
	sets        *object.Informer[*appsv1.ReplicaSet]
	events      record.EventRecorder
	clock       clock.PassiveClock
	kinds       *discovery.Kinds
	queue       *reconcile.Controller
	stale       *reconcile.Controller
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	c := &disruption{
		client: env.Client, budgets: object.InformerFor(env.Informers, object.PodDisruptionBudget), pods: env.Pods(), sets: env.Sets(),
		deployments: object.InformerFor(env.Informers, object.Deployment), events: env.Recorder("controllermanager"), clock: env.Clock,
		kinds: discovery.NewKinds(env.Client, env.Clock),
	}
	c.queue = reconcile.New(reconcile.Config{Name: "disruption", Kind: "PodDisruptionBudget", Workers: 4, Reconcile: c.reconcile, Metrics: env.Metrics})
	c.stale = reconcile.New(reconcile.Config{Name: "disruption-stale", Kind: "Pod", Workers: 1, Reconcile: c.reset, Metrics: env.Metrics})
	controller.Handle(env, c.budgets, func(_, new *policyv1.PodDisruptionBudget) {
		if new != nil {
			c.queue.Enqueue(object.KeyOf(new), c.budgets.Trace(new))
		}
	})
	controller.Handle(env, c.pods, func(old, new *corev1.Pod) {
		if new != nil && isStale(new) {
			c.stale.Enqueue(object.KeyOf(new), c.pods.Trace(new))
		}
		if new != nil && (old == nil || old.ResourceVersion != new.ResourceVersion) {
			c.tellMany(new)
		}
		if old != nil && new != nil && ready(old) == ready(new) && old.DeletionTimestamp.IsZero() == new.DeletionTimestamp.IsZero() &&
			labels.Equals(old.Labels, new.Labels) {
			return
		}
		for _, p := range []*corev1.Pod{old, new} {
			if p != nil {
				c.touched(p.Namespace, p.Labels)
			}
		}
	})
	controller.Handle(env, c.deployments, func(old, new *appsv1.Deployment) {
		if old != nil && new != nil && replicas(old.Spec.Replicas) != replicas(new.Spec.Replicas) {
			c.touched(new.Namespace, new.Spec.Template.Labels)
		}
	})
	controller.Handle(env, c.sets, func(old, new *appsv1.ReplicaSet) {
		if old != nil && new != nil && replicas(old.Spec.Replicas) != replicas(new.Spec.Replicas) {
			c.touched(new.Namespace, new.Spec.Template.Labels)
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.queue, c.stale}}
}

// touched has the budgets looked at that select such a pod.
func (c *disruption) touched(namespace string, of map[string]string) {
	for _, b := range c.budgets.List(namespace) {
		if selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && selector.Matches(labels.Set(of)) {
			c.queue.EnqueueAfter(object.KeyOf(b), gather)
		}
	}
}

// tellMany tells of a pod that several budgets are for: none of them can keep its promise alone, and evictions of it are refused.
func (c *disruption) tellMany(p *corev1.Pod) {
	var names []string
	for _, b := range c.budgets.List(p.Namespace) {
		if selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && selector.Matches(labels.Set(p.Labels)) {
			names = append(names, b.Name)
		}
	}
	if len(names) > 1 {
		c.events.Eventf(p, corev1.EventTypeWarning, "MultiplePodDisruptionBudgets",
			"Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", p.Namespace, p.Name, slices.Min(names))
	}
}

// reconcile writes a budget's status, if the budget has not moved on since it was read.
func (c *disruption) reconcile(ctx context.Context, key string) (time.Duration, error) {
	b, ok := c.budgets.GetKey(key)
	if !ok {
		return 0, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return 0, c.write(ctx, b, Failed(b, err, c.clock.Now()))
	}
	var pods []*corev1.Pod
	for _, p := range c.pods.List(b.Namespace) {
		if selector.Matches(labels.Set(p.Labels)) {
			pods = append(pods, p)
		}
	}
	scale := func(owner *metav1.OwnerReference, namespace string) (types.UID, int32, error) {
		return c.scale(ctx, owner, namespace)
	}
	plan, err := Decide(b, pods, scale, c.clock.Now())
	if err != nil {
		c.events.Event(b, corev1.EventTypeWarning, "CalculateExpectedPodCountFailed", "Failed to calculate the number of expected pods: "+err.Error())
		if failed := Failed(b, err, c.clock.Now()); !Same(b, failed) {
			return 0, c.write(ctx, b, failed)
		}
		return 0, err
	}
	for _, late := range plan.Late {
		c.events.Eventf(late, corev1.EventTypeWarning, "NotDeleted", "Pod was expected by PDB %s/%s to be deleted but it wasn't", b.Namespace, b.Name)
	}
	if Same(b, plan.Status) {
		return plan.Recheck, nil
	}
	if len(pods) == 0 {
		c.events.Event(b, corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	if len(plan.Unmanaged) > 0 {
		c.events.Event(b, corev1.EventTypeWarning, "UnmanagedPods", unmanaged(b))
	}
	return plan.Recheck, c.write(ctx, b, plan.Status)
}

// unmanaged tells of pods that no controller would replace. The selector is told as Go's API types show it, as in Kubernetes.
func unmanaged(b *policyv1.PodDisruptionBudget) string {
	return "Pods selected by this PodDisruptionBudget (selector: " + b.Spec.Selector.String() + ") were found to be unmanaged. " +
		"As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. " +
		"To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
}

func (c *disruption) write(ctx context.Context, b *policyv1.PodDisruptionBudget, status policyv1.PodDisruptionBudgetStatus) error {
	b = b.DeepCopy()
	b.Status = status
	_, err := object.For(c.client, object.PodDisruptionBudget).UpdateStatus(ctx, b)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the event of what it has become calls again
	}
	return err
}

// scale finds out what a pod's controller wants: of the caches, of the object itself, or of its scale where it is of any other kind.
func (c *disruption) scale(ctx context.Context, owner *metav1.OwnerReference, namespace string) (types.UID, int32, error) {
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return "", 0, err
	}
	kind := schema.GroupKind{Group: gv.Group, Kind: owner.Kind}
	switch kind {
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, schema.GroupKind{Group: "extensions", Kind: "ReplicaSet"}:
		rs, ok := c.sets.Get(namespace, owner.Name)
		if !ok || rs.UID != owner.UID {
			return "", 0, nil
		}
		if by := metav1.GetControllerOf(rs); by != nil && by.Kind == "Deployment" {
			if d, ok := c.deployments.Get(namespace, by.Name); ok && d.UID == by.UID {
				return d.UID, replicas(d.Spec.Replicas), nil
			}
		}
		return rs.UID, replicas(rs.Spec.Replicas), nil
	case setKind.GVK.GroupKind():
		s, err := object.For(c.client, setKind).Get(ctx, namespace, owner.Name)
		if err != nil || s.UID != owner.UID {
			return "", 0, ignoreNotFound(err)
		}
		return s.UID, replicas(s.Spec.Replicas), nil
	case replicationKind.GVK.GroupKind():
		r, err := object.For(c.client, replicationKind).Get(ctx, namespace, owner.Name)
		if err != nil || r.UID != owner.UID {
			return "", 0, ignoreNotFound(err)
		}
		return r.UID, replicas(r.Spec.Replicas), nil
	}
	return c.scaleOf(ctx, owner, namespace, kind)
}

// scaleOf reads the scale of a controller of whatever kind.
func (c *disruption) scaleOf(ctx context.Context, owner *metav1.OwnerReference, namespace string, kind schema.GroupKind) (types.UID, int32, error) {
	found, err := c.kinds.Find(ctx, kind)
	if err != nil {
		return "", 0, err
	}
	r := found[0]
	if !r.Scales {
		return "", 0, fmt.Errorf("%s does not implement the scale subresource", r.GroupResource())
	}
	scale, err := c.client.Scales(r.GVK.GroupVersion().WithResource(r.Name), r.Remote).Get(ctx, namespace, owner.Name)
	if err != nil || scale.UID != owner.UID {
		return "", 0, ignoreNotFound(err)
	}
	return scale.UID, scale.Spec.Replicas, nil
}

func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
