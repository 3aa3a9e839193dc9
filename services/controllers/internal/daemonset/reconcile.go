package daemonset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/owner"
	"howdah.dev/services/controllers/internal/pace"
	"howdah.dev/services/controllers/internal/podcontrol"
	"howdah.dev/services/controllers/internal/revision"
)

// kind is what controller references of pods and revisions say.
var kind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// daemonSets reconciles DaemonSets.
type daemonSets struct {
	client    *object.Client
	sets      *object.Informer[*appsv1.DaemonSet]
	nodes     *object.Informer[*corev1.Node]
	pods      *object.Informer[*corev1.Pod]
	revisions *object.Informer[*appsv1.ControllerRevision]
	history   *revision.History
	control   *podcontrol.Control
	backoff   *backoff
	pace      *pace.Pace
	events    record.EventRecorder
	clock     clock.PassiveClock
	queue     *reconcile.Controller
	skipped   *podcontrol.Skips
}

// New returns the controller; skipped may be nil.
func New(env *controller.Env, skipped *podcontrol.Skips) controller.Unit {
	events := env.Recorder("daemonset-controller")
	c := &daemonSets{
		client:    env.Client,
		sets:      object.InformerFor(env.Informers, object.DaemonSet),
		nodes:     object.InformerFor(env.Informers, object.Node),
		pods:      env.Pods(),
		revisions: env.Revisions(),
		history:   revision.NewHistory(env),
		control:   podcontrol.New(env, kind, events),
		backoff:   newBackoff(), pace: pace.New(),
		events: events, clock: env.Clock, skipped: skipped,
	}
	c.queue = reconcile.New(reconcile.Config{
		Name: "daemonset", Kind: kind.Kind, Workers: 8, Reconcile: c.reconcile, Metrics: env.Metrics,
	})
	controller.Handle(env, c.sets, c.setChanged)
	controller.Handle(env, c.nodes, c.nodeChanged)
	controller.Handle(env, c.revisions, c.revisionChanged)
	c.control.Follow(env, c.queue, func(orphan *corev1.Pod) []string { return c.selecting(orphan) })
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

// reconcile takes one set a step further. A set that waits for its own writes to show only counts until they do; the events of them
// call again.
func (c *daemonSets) reconcile(ctx context.Context, key string) (time.Duration, error) {
	ds, ok := c.sets.GetKey(key)
	// Of one that is being deleted the history may be gone already: which pods are old can no longer be told.
	if !ok || ds.DeletionTimestamp != nil {
		return 0, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(ds.Spec.Selector)
	if err != nil {
		return 0, nil // validation refuses it
	}
	if selector.Empty() {
		c.events.Event(ds, corev1.EventTypeWarning, "SelectingAll", "This daemon set is selecting all pods. A non-empty selector is required.")
		return 0, nil
	}
	if c.control.Behind(ds) {
		c.skipped.Count(object.DaemonSet.GroupResource())
		return podcontrol.Patience, nil
	}
	now := c.clock.Now()
	if wait := c.pace.Wait(ds.UID, ds.Generation, now); wait > 0 {
		return wait, nil
	}
	return c.step(ctx, ds, selector, now)
}

// step plans the set from what the caches show, and carries the plan out.
func (c *daemonSets) step(ctx context.Context, ds *appsv1.DaemonSet, selector labels.Selector, now time.Time) (time.Duration, error) {
	settled := c.control.Settled(ds.UID)
	pods, err := c.claim(ctx, ds, selector)
	if err != nil {
		return 0, err
	}
	c.pace.Ran(ds.UID, ds.Generation, len(pods), now)
	had, err := c.record(ctx, ds, selector, pods)
	if err != nil {
		return 0, fmt.Errorf("record revision: %w", err)
	}
	plan := Decide(ds, Observed{
		Nodes: c.nodes.List(""), Pods: pods, Hash: had.hash,
		Settled: settled && !had.moving, Waits: c.backoff.waits(ds, now),
	}, now)
	err = c.apply(ctx, ds, had.hash, plan, now)
	if err == nil && settled {
		err = c.history.Delete(ctx, expired(ds, had.old, pods))
	}
	if had.collisions > 0 {
		plan.Status.CollisionCount = ptr.To(had.collisions)
	}
	if !settled || len(plan.Create)+len(plan.Delete) > 0 {
		// The pods' events call again; should they never come, look all the same.
		plan.lookAgain(podcontrol.Patience)
	}
	return plan.After, errors.Join(err, c.writeStatus(ctx, ds, plan.Status))
}

// claim returns the set's pods, after it has adopted and released what it should.
func (c *daemonSets) claim(ctx context.Context, ds *appsv1.DaemonSet, selector labels.Selector) ([]*corev1.Pod, error) {
	claims := owner.Claim(ds, selector, slices.Concat(
		c.pods.ByIndex(controller.ByController, string(ds.UID)),
		c.pods.ByIndex(controller.ByController, controller.OrphansOf(ds.Namespace))))
	if err := c.control.Claim(ctx, ds, claims.Adopt, claims.Release, c.live(ds)); err != nil {
		return nil, err
	}
	return slices.Concat(claims.Own, claims.Adopt), nil
}

// live returns the reading of the set past the cache.
func (c *daemonSets) live(ds *appsv1.DaemonSet) owner.Live {
	return func(ctx context.Context) (metav1.Object, error) {
		return object.For(c.client, object.DaemonSet).Get(ctx, ds.Namespace, ds.Name)
	}
}

// apply creates and deletes pods.
func (c *daemonSets) apply(ctx context.Context, ds *appsv1.DaemonSet, hash string, plan Plan, now time.Time) error {
	for _, e := range plan.Events {
		c.events.Event(ds, e.Type, e.Reason, e.Message)
	}
	c.backoff.failed(ds, plan.Failed, now)
	var problems []error
	if len(plan.Create) > 0 {
		problems = append(problems, c.create(ctx, ds, hash, plan.Create))
	}
	if len(plan.Delete) > 0 {
		problems = append(problems, c.control.Delete(ctx, ds, plan.Delete))
	}
	return errors.Join(problems...)
}

// create makes a pod for each node. A name whose creation may have landed is tried again in its place among the others. Should
// that be another node's now, the node gets two pods, of which the next plan removes one.
func (c *daemonSets) create(ctx context.Context, ds *appsv1.DaemonSet, hash string, nodes []string) error {
	names := c.control.Names(ds, podcontrol.GenerateName(ds.Name), len(nodes))
	places := make(map[string]string, len(nodes))
	for i, name := range names {
		places[name] = nodes[i]
	}
	t := template(ds, hash)
	podOf := func(name string) *corev1.Pod { return podFrom(&t, ds, name, places[name]) }
	// The set has nothing to remember a failure by: it always begins with one pod.
	return c.control.Create(ctx, ds, names, podOf, true)
}

func (c *daemonSets) writeStatus(ctx context.Context, ds *appsv1.DaemonSet, s appsv1.DaemonSetStatus) error {
	if apiequality.Semantic.DeepEqual(ds.Status, s) {
		return nil
	}
	updated := *ds
	updated.Status = s
	stored, err := object.For(c.client, object.DaemonSet).UpdateStatus(ctx, &updated)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("update status: %w", err)
	}
	c.control.Wrote(stored)
	return nil
}
