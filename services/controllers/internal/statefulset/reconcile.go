package statefulset

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

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/owner"
	"howdah.dev/services/controllers/internal/pace"
	"howdah.dev/services/controllers/internal/podcontrol"
	"howdah.dev/services/controllers/internal/revision"
)

// statefulSets reconciles StatefulSets.
type statefulSets struct {
	client  *object.Client
	sets    *object.Informer[*appsv1.StatefulSet]
	pods    *object.Informer[*corev1.Pod]
	claims  *object.Informer[*corev1.PersistentVolumeClaim]
	history *revision.History
	control *podcontrol.Control
	events  record.EventRecorder
	clock   clock.PassiveClock
	queue   *reconcile.Controller
	pace    *pace.Pace
	metrics *Metrics
}

// New returns the controller; metrics may be nil.
func New(env *controller.Env, metrics *Metrics) controller.Unit {
	metrics.began()
	c := build(env, metrics)
	c.queue = reconcile.New(reconcile.Config{Name: "statefulset", Kind: kind.Kind, Workers: 8, Reconcile: c.reconcile, Metrics: env.Metrics})
	controller.Handle(env, c.sets, c.setChanged)
	controller.Handle(env, c.claims, c.claimChanged)
	c.control.Follow(env, c.queue, c.mayAdopt)
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

func build(env *controller.Env, metrics *Metrics) *statefulSets {
	events := env.Recorder("statefulset-controller")
	return &statefulSets{
		client: env.Client, sets: object.InformerFor(env.Informers, object.StatefulSet), pods: env.Pods(),
		claims: object.InformerFor(env.Informers, object.PersistentVolumeClaim), history: revision.NewHistory(env),
		control: podcontrol.NewWorded(env, kind, events, word), events: events, clock: env.Clock, pace: pace.New(), metrics: metrics,
	}
}

func (c *statefulSets) setChanged(old, new *appsv1.StatefulSet) {
	if new == nil || old != nil && old.UID != new.UID {
		c.control.Forget(old.UID)
		c.pace.Forget(old.UID)
		c.metrics.forget(old)
	}
	set := new
	if set == nil {
		set = old
	}
	c.queue.Enqueue(object.KeyOf(set), c.sets.Trace(set))
}

// claimChanged asks for the set of a claim that is about to go, has gone or has other owners: pods may wait for it.
func (c *statefulSets) claimChanged(old, new *corev1.PersistentVolumeClaim) {
	if old == nil {
		return
	}
	if new != nil && (new.DeletionTimestamp == nil) == (old.DeletionTimestamp == nil) &&
		apiequality.Semantic.DeepEqual(old.OwnerReferences, new.OwnerReferences) {
		return
	}
	for _, set := range c.sets.List(old.Namespace) {
		if hasClaim(set, old.Name) {
			c.queue.Enqueue(object.KeyOf(set), c.claims.Trace(old))
		}
	}
}

// mayAdopt returns the sets that select an orphan and could have given it its name.
func (c *statefulSets) mayAdopt(p *corev1.Pod) (keys []string) {
	for _, set := range c.sets.List(p.Namespace) {
		if _, named := ordinalOf(set, p.Name); !named {
			continue
		}
		if s, err := metav1.LabelSelectorAsSelector(set.Spec.Selector); err == nil && s.Matches(labels.Set(p.Labels)) {
			keys = append(keys, object.KeyOf(set))
		}
	}
	return keys
}

// reconcile takes one set a step further. A set that waits for its own
// writes to show does nothing until they do; the events of them call again.
func (c *statefulSets) reconcile(ctx context.Context, key string) (time.Duration, error) {
	set, ok := c.sets.GetKey(key)
	if !ok {
		return 0, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil || selector.Empty() {
		return 0, nil // validation refuses both; nothing sensible can be done
	}
	if c.control.Behind(set) {
		c.metrics.stale()
		return podcontrol.Patience, nil
	}
	now := c.clock.Now()
	if wait := c.pace.Wait(set.UID, set.Generation, now); wait > 0 {
		return wait, nil
	}
	seen := Observed{Claim: c.claim(set.Namespace), Settled: c.control.Settled(set.UID)}
	if seen.Pods, err = c.members(ctx, set, selector); err != nil {
		return 0, err
	}
	c.pace.Ran(set.UID, set.Generation, len(seen.Pods), now)
	revisions, collisions, err := c.revisions(ctx, set, selector, &seen)
	if err != nil {
		return 0, err
	}

	c.metrics.seen(set, seen, now)
	problem := c.apply(ctx, set, Decide(set, seen, now))
	status, after := Status(set, seen, collisions, now)
	if err := c.writeStatus(ctx, set, status); err != nil {
		problem = errors.Join(problem, err)
	}
	if err := c.truncate(ctx, set, seen, revisions); err != nil {
		problem = errors.Join(problem, err)
	}
	if !seen.Settled && (after == 0 || after > podcontrol.Patience) {
		after = podcontrol.Patience // should the events of its writes never come, it looks again
	}
	return after, problem
}

// claim returns the look-up of a namespace's claims by name.
func (c *statefulSets) claim(namespace string) func(string) *corev1.PersistentVolumeClaim {
	return func(name string) *corev1.PersistentVolumeClaim {
		claim, _ := c.claims.Get(namespace, name)
		return claim
	}
}

// members returns the set's pods, after it has adopted and released what it should.
func (c *statefulSets) members(ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector) ([]*corev1.Pod, error) {
	claims := Members(set, selector, append(
		c.pods.ByIndex(controller.ByController, string(set.UID)),
		c.pods.ByIndex(controller.ByController, controller.OrphansOf(set.Namespace))...))
	if err := c.control.Claim(ctx, set, claims.Adopt, claims.Release, c.live(set)); err != nil {
		return nil, err
	}
	return slices.Concat(claims.Own, claims.Adopt), nil
}

// live returns the reading of the set past the cache.
func (c *statefulSets) live(set *appsv1.StatefulSet) owner.Live {
	return func(ctx context.Context) (metav1.Object, error) {
		return object.For(c.client, object.StatefulSet).Get(ctx, set.Namespace, set.Name)
	}
}

// revisions puts what the set's pods had, and what they are to have, into seen. It returns the set's history.
func (c *statefulSets) revisions(ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector, seen *Observed) ([]*appsv1.ControllerRevision, int32, error) {
	o := revision.Owner{Object: set, Kind: kind, Template: &set.Spec.Template, HashLabel: revision.HashLabel}
	if set.Status.CollisionCount != nil {
		o.Collisions = *set.Status.CollisionCount
	}
	if set.DeletionTimestamp != nil {
		seen.Current.Name, seen.Update.Name = set.Status.CurrentRevision, set.Status.UpdateRevision
		return nil, o.Collisions, nil
	}
	history, err := c.history.Of(ctx, o, selector, c.live(set))
	if err != nil {
		return nil, o.Collisions, err
	}
	update, collisions, err := c.history.Record(ctx, o, history)
	if err != nil {
		return nil, collisions, err
	}
	seen.Update = Revision{update.Name, &set.Spec.Template}
	seen.Current = seen.Update
	for _, r := range history {
		if r.Name == set.Status.CurrentRevision && r.Name != update.Name {
			t, err := revision.Template(r)
			if err != nil {
				return nil, collisions, err
			}
			seen.Current = Revision{r.Name, t}
		}
	}
	return history, collisions, nil
}

// truncate deletes the revisions that are beyond the limit and in no use.
func (c *statefulSets) truncate(ctx context.Context, set *appsv1.StatefulSet, seen Observed, history []*appsv1.ControllerRevision) error {
	if set.Spec.RevisionHistoryLimit == nil {
		return nil
	}
	live := map[string]bool{seen.Current.Name: true, seen.Update.Name: true}
	for _, p := range seen.Pods {
		live[revisionOf(p)] = true
	}
	return c.history.Delete(ctx, revision.Expired(history, *set.Spec.RevisionHistoryLimit, func(r *appsv1.ControllerRevision) bool { return live[r.Name] }))
}

func (c *statefulSets) writeStatus(ctx context.Context, set *appsv1.StatefulSet, status appsv1.StatefulSetStatus) error {
	if apiequality.Semantic.DeepEqual(set.Status, status) {
		return nil
	}
	updated := *set
	updated.Status = status
	stored, err := object.For(c.client, object.StatefulSet).UpdateStatus(ctx, &updated)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("update status: %w", err)
	}
	c.control.Wrote(stored)
	return nil
}
