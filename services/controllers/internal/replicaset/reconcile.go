package replicaset

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"go.opentelemetry.io/otel/trace"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/owner"
	"howdah.dev/services/controllers/internal/pace"
)

// replicaSets reconciles ReplicaSets, or what is seen as such.
type replicaSets struct {
	client *object.Client
	kind   schema.GroupVersionKind
	sets   Source
	pods   *object.Informer[*corev1.Pod]
	events record.EventRecorder
	clock  clock.PassiveClock
	queue  *reconcile.Controller
	expect *expectations
	pace   *pace.Pace
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	sets := env.Sets()
	return NewFor(env, "replicaset", appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), replicaSetSource{sets, env.Client})
}

// NewFor returns a controller of that name for the kind behind the source.
func NewFor(env *controller.Env, name string, kind schema.GroupVersionKind, source Source) controller.Unit {
	c := &replicaSets{
		client: env.Client, kind: kind, sets: source, pods: env.Pods(),
		events: env.Recorder(name + "-controller"), clock: env.Clock,
		expect: newExpectations(), pace: pace.New(),
	}
	c.queue = reconcile.New(reconcile.Config{
		Name: name, Kind: kind.Kind, Workers: 8, Reconcile: c.reconcile, Metrics: env.Metrics,
	})
	source.Handle(env, c.setChanged)
	controller.Handle(env, c.pods, c.podChanged)
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

func (c *replicaSets) setChanged(old, new *appsv1.ReplicaSet) {
	if new == nil || old != nil && old.UID != new.UID {
		c.expect.forget(old.UID)
		c.pace.Forget(old.UID)
	}
	rs := new
	if rs == nil {
		rs = old
	}
	c.queue.Enqueue(object.KeyOf(rs), c.sets.Trace(rs))
}

func (c *replicaSets) podChanged(old, new *corev1.Pod) {
	p := new
	if p == nil {
		p = old
	}
	ref := metav1.GetControllerOfNoCopy(p)
	if old != nil && new != nil {
		if old.ResourceVersion == new.ResourceVersion {
			return
		}
		if was := metav1.GetControllerOfNoCopy(old); was != nil && (ref == nil || was.UID != ref.UID) {
			c.expect.observed(was.UID, old, true)
			c.enqueueOwner(old.Namespace, was, c.pods.Trace(new))
		}
	}
	if ref != nil {
		c.expect.observed(ref.UID, p, new == nil)
		c.enqueueOwner(p.Namespace, ref, c.pods.Trace(p))
		return
	}
	if new == nil || new.DeletionTimestamp != nil || len(new.Labels) == 0 {
		return
	}
	// An orphan: whichever set selects it may adopt it.
	for _, rs := range c.sets.List(p.Namespace) {
		if s, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector); err == nil && s.Matches(labels.Set(p.Labels)) {
			c.queue.Enqueue(object.KeyOf(rs), c.pods.Trace(p))
		}
	}
}

func (c *replicaSets) enqueueOwner(namespace string, ref *metav1.OwnerReference, by trace.SpanContext) {
	if ref.Kind == c.kind.Kind && ref.APIVersion == c.kind.GroupVersion().String() {
		c.queue.Enqueue(object.Key(namespace, ref.Name), by)
	}
}

// reconcile takes one set a step further. A set that waits for its own
// writes to show does nothing until they do; the events of them call again.
func (c *replicaSets) reconcile(ctx context.Context, key string) (time.Duration, error) {
	rs, ok := c.sets.GetKey(key)
	if !ok {
		return 0, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	if err != nil || selector.Empty() {
		return 0, nil // validation refuses both; nothing sensible can be done
	}
	now := c.clock.Now()
	if wait := c.pace.Wait(rs.UID, rs.Generation, now); wait > 0 {
		return wait, nil
	}
	settled := c.expect.settled(rs.UID, now)
	own := c.pods.ByIndex(controller.ByController, string(rs.UID))
	plan := Decide(rs, selector, Observed{
		Pods:    append(own, c.pods.ByIndex(controller.ByController, controller.OrphansOf(rs.Namespace))...),
		Related: c.related(rs),
		Settled: settled,
	}, now)
	c.pace.Ran(rs.UID, rs.Generation, len(plan.Own), now)

	if err := c.claim(ctx, rs, &plan); err != nil {
		return 0, err
	}
	failure, problem := c.apply(ctx, rs, plan)
	if plan.Create > 0 && problem == nil {
		// The events of the new pods bring the status; should they never come, look again.
		return patience, nil
	}
	if !settled {
		failure = lastFailure(rs)
	}
	status, after := Status(rs, plan.Own, failure, now)
	if changed(rs.Status, status) {
		updated := *rs
		updated.Status = status
		if err := c.sets.WriteStatus(ctx, &updated); err != nil && !apierrors.IsNotFound(err) {
			return 0, errors.Join(problem, fmt.Errorf("update status: %w", err))
		}
	}
	if !settled && (after == 0 || after > patience) {
		after = patience
	}
	return after, problem
}

// lastFailure is the failure that the set's status tells of.
func lastFailure(rs *appsv1.ReplicaSet) *Failure {
	for _, c := range rs.Status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			return &Failure{c.Reason, c.Message}
		}
	}
	return nil
}

// related are the pods of the other sets of the same owner.
func (c *replicaSets) related(rs *appsv1.ReplicaSet) []*corev1.Pod {
	ref := metav1.GetControllerOfNoCopy(rs)
	if ref == nil {
		return nil
	}
	var pods []*corev1.Pod
	for _, sibling := range c.sets.ControlledBy(ref.UID) {
		if sibling.UID != rs.UID {
			pods = append(pods, c.pods.ByIndex(controller.ByController, string(sibling.UID))...)
		}
	}
	return pods
}

// claim adopts and releases pods. What could not be adopted leaves the plan.
func (c *replicaSets) claim(ctx context.Context, rs *appsv1.ReplicaSet, plan *Plan) error {
	if len(plan.Adopt)+len(plan.Release) == 0 {
		return nil
	}
	if len(plan.Adopt) > 0 {
		// The cache may not know yet that the set is being deleted or was replaced.
		live, err := c.sets.Live(ctx, rs.Namespace, rs.Name)
		if err != nil {
			return fmt.Errorf("check before adoption: %w", err)
		}
		if live.UID != rs.UID || live.DeletionTimestamp != nil {
			return fmt.Errorf("%s %s is being deleted: it adopts no pods", c.kind.Kind, rs.Name)
		}
	}
	var items []object.Item
	add := func(p *corev1.Pod, patch []byte, err error) error {
		if err == nil {
			items = append(items, object.For(c.client, object.Pod).PatchItem(p.Namespace, p.Name, types.MergePatchType, patch, ""))
		}
		return err
	}
	for _, p := range plan.Adopt {
		patch, err := owner.AdoptPatch(rs, c.kind, p)
		if err := add(p, patch, err); err != nil {
			return err
		}
	}
	for _, p := range plan.Release {
		patch, err := owner.ReleasePatch(rs.UID, p)
		if err := add(p, patch, err); err != nil {
			return err
		}
	}
	results, err := c.client.Batch(ctx, items, false)
	if err != nil {
		return fmt.Errorf("claim pods: %w", err)
	}
	var problems []error
	for _, r := range results {
		if r.Err != nil && !apierrors.IsNotFound(r.Err) {
			problems = append(problems, r.Err)
		}
	}
	return errors.Join(problems...)
}
