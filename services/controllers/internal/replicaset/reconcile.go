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
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/pace"
	"howdah.dev/services/controllers/internal/podcontrol"
)

// replicaSets reconciles ReplicaSets, or what is seen as such.
type replicaSets struct {
	kind    schema.GroupVersionKind
	sets    Source
	pods    *object.Informer[*corev1.Pod]
	control *podcontrol.Control
	clock   clock.PassiveClock
	queue   *reconcile.Controller
	pace    *pace.Pace
	metrics *Metrics
}

// New returns the controller. metrics may be nil.
func New(env *controller.Env, metrics *Metrics) controller.Unit {
	sets := env.Sets()
	return NewFor(env, "replicaset", appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), replicaSetSource{sets, env.Client}, metrics)
}

// NewFor returns a controller of that name for the kind behind the source.
func NewFor(env *controller.Env, name string, kind schema.GroupVersionKind, source Source, metrics *Metrics) controller.Unit {
	c := &replicaSets{
		kind: kind, sets: source, pods: env.Pods(), control: podcontrol.New(env, kind, env.Recorder(name+"-controller")),
		clock: env.Clock, pace: pace.New(), metrics: metrics,
	}
	c.queue = reconcile.New(reconcile.Config{
		Name: name, Kind: kind.Kind, Workers: 8, Reconcile: c.reconcile, Metrics: env.Metrics,
	})
	source.Handle(env, c.setChanged)
	c.control.Follow(env, c.queue, c.mayAdopt)
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

func (c *replicaSets) setChanged(old, new *appsv1.ReplicaSet) {
	if new == nil || old != nil && old.UID != new.UID {
		c.control.Forget(old.UID)
		c.pace.Forget(old.UID)
	}
	rs := new
	if rs == nil {
		rs = old
	}
	c.queue.Enqueue(object.KeyOf(rs), c.sets.Trace(rs))
}

// mayAdopt returns the sets that select an orphan.
func (c *replicaSets) mayAdopt(p *corev1.Pod) (keys []string) {
	for _, rs := range c.sets.List(p.Namespace) {
		if s, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector); err == nil && s.Matches(labels.Set(p.Labels)) {
			keys = append(keys, object.KeyOf(rs))
		}
	}
	return keys
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
	if c.control.Behind(rs) {
		c.metrics.stale(c.kind)
		return podcontrol.Patience, nil
	}
	now := c.clock.Now()
	if wait := c.pace.Wait(rs.UID, rs.Generation, now); wait > 0 {
		return wait, nil
	}
	settled := c.control.Settled(rs.UID)
	own := c.pods.ByIndex(controller.ByController, string(rs.UID))
	plan := Decide(rs, selector, Observed{
		Pods:    append(own, c.pods.ByIndex(controller.ByController, controller.OrphansOf(rs.Namespace))...),
		Related: c.related(rs),
		Settled: settled,
	}, now)
	c.metrics.chose(plan.Delete, plan.Own, now)
	c.pace.Ran(rs.UID, rs.Generation, len(plan.Own), now)

	live := func(ctx context.Context) (metav1.Object, error) { return c.sets.Live(ctx, rs.Namespace, rs.Name) }
	if err := c.control.Claim(ctx, rs, plan.Adopt, plan.Release, live); err != nil {
		return 0, err
	}
	failure, problem := c.apply(ctx, rs, plan)
	if plan.Create > 0 && problem == nil {
		// The events of the new pods bring the status; should they never come, look again.
		return podcontrol.Patience, nil
	}
	if !settled {
		failure = lastFailure(rs)
	}
	status, after := Status(rs, plan.Own, failure, now)
	if changed(rs.Status, status) {
		if err := c.writeStatus(ctx, rs, status); err != nil {
			return 0, errors.Join(problem, err)
		}
	}
	if !settled && (after == 0 || after > podcontrol.Patience) {
		after = podcontrol.Patience
	}
	return after, problem
}

func (c *replicaSets) writeStatus(ctx context.Context, rs *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) error {
	updated := *rs
	updated.Status = status
	stored, err := c.sets.WriteStatus(ctx, &updated)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update status: %w", err)
	}
	if err == nil && stored != nil {
		c.control.Wrote(stored)
	}
	return nil
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
