package deployment

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/owner"
	"howdah.dev/services/controllers/internal/pod"
	"howdah.dev/services/controllers/internal/written"
)

// deployments reconciles Deployments.
type deployments struct {
	client      *object.Client
	deployments *object.Informer[*appsv1.Deployment]
	sets        *object.Informer[*appsv1.ReplicaSet]
	pods        *object.Informer[*corev1.Pod]
	events      record.EventRecorder
	clock       clock.PassiveClock
	queue       *reconcile.Controller
	written     *written.Versions // of Deployments
	writtenSets *written.Versions // of ReplicaSets
	made        *written.Versions // the newest version of a Deployment's sets that was written here: a new one is not in the cache yet
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	return controller.Unit{Queues: []*reconcile.Controller{build(env).queue}}
}

func build(env *controller.Env) *deployments {
	c := &deployments{
		client: env.Client, sets: env.Sets(), pods: env.Pods(),
		deployments: object.InformerFor(env.Informers, object.Deployment),
		events:      env.Recorder("deployment-controller"), clock: env.Clock,
		written: env.Written(object.Deployment.GVK.GroupKind()), writtenSets: env.Written(object.ReplicaSet.GVK.GroupKind()), made: written.New(env.Clock),
	}
	c.queue = reconcile.New(reconcile.Config{
		Name: "deployment", Kind: "Deployment", Workers: 8, Reconcile: c.reconcile, Metrics: env.Metrics,
	})
	controller.Handle(env, c.deployments, func(old, new *appsv1.Deployment) {
		if old != nil && (new == nil || new.UID != old.UID) {
			c.written.Forget(old.UID)
			c.made.Forget(old.UID)
		}
		d := new
		if d == nil {
			d = old
		}
		c.queue.Enqueue(object.KeyOf(d), c.deployments.Trace(d))
	})
	controller.Handle(env, c.sets, c.setChanged)
	controller.Handle(env, c.pods, c.podChanged)
	return c
}

func (c *deployments) setChanged(old, new *appsv1.ReplicaSet) {
	if old != nil && (new == nil || new.UID != old.UID) {
		c.writtenSets.Forget(old.UID) // here, too: the ReplicaSet controller may run elsewhere
	}
	for _, rs := range []*appsv1.ReplicaSet{old, new} {
		if rs == nil {
			continue
		}
		ref := metav1.GetControllerOfNoCopy(rs)
		if ref != nil {
			if ref.Kind == kind.Kind {
				c.queue.Enqueue(object.Key(rs.Namespace, ref.Name), c.sets.Trace(rs))
			}
			continue
		}
		for _, d := range c.deployments.List(rs.Namespace) {
			if s, err := metav1.LabelSelectorAsSelector(d.Spec.Selector); err == nil && !s.Empty() && s.Matches(labels.Set(rs.Labels)) {
				c.queue.Enqueue(object.KeyOf(d), c.sets.Trace(rs))
			}
		}
	}
}

// podChanged wakes a Deployment that recreates when an old pod has ended;
// the ReplicaSets' statuses tell all others what they need.
func (c *deployments) podChanged(old, new *corev1.Pod) {
	if old == nil || new != nil && (!pod.Terminal(new) || pod.Terminal(old)) {
		return
	}
	ref := metav1.GetControllerOfNoCopy(old)
	if ref == nil || ref.Kind != "ReplicaSet" {
		return
	}
	rs, ok := c.sets.Get(old.Namespace, ref.Name)
	if !ok {
		return
	}
	ref = metav1.GetControllerOfNoCopy(rs)
	if ref == nil || ref.Kind != kind.Kind {
		return
	}
	if d, ok := c.deployments.Get(old.Namespace, ref.Name); ok && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		c.queue.Enqueue(object.KeyOf(d), c.pods.Trace(old))
	}
}

func (c *deployments) reconcile(ctx context.Context, key string) (time.Duration, error) {
	d, ok := c.deployments.GetKey(key)
	if !ok {
		return 0, nil
	}
	if c.behind(d) {
		return written.Patience, nil // what was written calls again when it shows
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return 0, nil // validation refuses it
	}
	if selector.Empty() {
		c.events.Event(d, corev1.EventTypeWarning, "SelectingAll", "This deployment is selecting all pods. A non-empty selector is required.")
		return 0, nil
	}
	sets, err := c.claim(ctx, d, selector)
	if err != nil {
		return 0, err
	}
	seen := Observed{Sets: sets}
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		seen.Running = c.running(sets)
	}
	plan := Decide(d, seen, c.clock.Now())
	return plan.After, c.apply(ctx, d, plan)
}

// behind reports whether the caches are yet to show what was written of the Deployment and its sets: what is planned from them would be refused.
func (c *deployments) behind(d *appsv1.Deployment) bool {
	return c.written.Behind(d) || c.made.Hidden(d.UID, c.sets.Shows) ||
		slices.ContainsFunc(c.sets.ByIndex(controller.ByController, string(d.UID)), func(rs *appsv1.ReplicaSet) bool { return c.writtenSets.Behind(rs) })
}

// claim returns the sets that the Deployment controls, after it has adopted
// and released what it should.
func (c *deployments) claim(ctx context.Context, d *appsv1.Deployment, selector labels.Selector) ([]*appsv1.ReplicaSet, error) {
	candidates := append(c.sets.ByIndex(controller.ByController, string(d.UID)),
		c.sets.ByIndex(controller.ByController, controller.OrphansOf(d.Namespace))...)
	claims := owner.Claim(d, selector, candidates)
	if len(claims.Adopt) > 0 {
		live := func(ctx context.Context) (metav1.Object, error) {
			return object.For(c.client, object.Deployment).Get(ctx, d.Namespace, d.Name)
		}
		if err := owner.MayAdopt(ctx, d, live); err != nil {
			return nil, err
		}
	}
	for _, rs := range claims.Adopt {
		patch, err := owner.AdoptPatch(d, kind, rs)
		if err != nil {
			return nil, err
		}
		adopted, err := object.For(c.client, object.ReplicaSet).Patch(ctx, rs.Namespace, rs.Name, types.MergePatchType, patch, "")
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("adopt replica set %s: %w", rs.Name, err)
		}
		claims.Own = append(claims.Own, adopted)
	}
	for _, rs := range claims.Release {
		patch, err := owner.ReleasePatch(d.UID, rs)
		if err != nil {
			return nil, err
		}
		if _, err := object.For(c.client, object.ReplicaSet).Patch(ctx, rs.Namespace, rs.Name, types.MergePatchType, patch, ""); err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("release replica set %s: %w", rs.Name, err)
		}
	}
	return claims.Own, nil
}

func (c *deployments) running(sets []*appsv1.ReplicaSet) map[string]bool {
	running := map[string]bool{}
	for _, rs := range sets {
		for _, p := range c.pods.ByIndex(controller.ByController, string(rs.UID)) {
			if !pod.Terminal(p) {
				running[rs.Name] = true
			}
		}
	}
	return running
}

// apply does what the plan says. A ReplicaSet that has changed meanwhile
// conflicts, and the next reconcile plans anew; events tell only of what was done.
func (c *deployments) apply(ctx context.Context, d *appsv1.Deployment, p Plan) error {
	err := c.applySets(ctx, d, &p)
	if err == nil {
		for _, e := range p.Events {
			c.events.Event(d, e.Type, e.Reason, e.Message)
		}
	}
	// A status of what could not be done would be untrue, except for its failure.
	if err != nil && !failed(&p.Status) {
		return err
	}
	if statusErr := c.applyStatus(ctx, d, p.Revision, p.Status); statusErr != nil {
		return errors.Join(err, statusErr)
	}
	return err
}

func failed(s *appsv1.DeploymentStatus) bool {
	for _, c := range s.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Reason == reasonFailed {
			return true
		}
	}
	return false
}

// applySets writes creations and updates of ReplicaSets in one call.
func (c *deployments) applySets(ctx context.Context, d *appsv1.Deployment, p *Plan) error {
	sets := object.For(c.client, object.ReplicaSet)
	var items []object.Item
	if p.Create != nil {
		items = append(items, sets.CreateItem(p.Create))
	}
	for _, rs := range p.Update {
		items = append(items, sets.UpdateItem(rs, ""))
	}
	for _, rs := range p.Delete {
		items = append(items, sets.DeleteItem(rs.Namespace, rs.Name,
			metav1.DeleteOptions{Preconditions: object.AsSeen(rs)}))
	}
	if len(items) == 0 {
		return nil
	}
	results, err := c.client.Batch(ctx, items, false)
	if err != nil {
		return fmt.Errorf("write replica sets: %w", err)
	}
	c.wrote(d, results[:min(len(results), len(items)-len(p.Delete))])
	var problems []error
	for i, r := range results {
		switch {
		case r.Err == nil:
		case i == 0 && p.Create != nil:
			problems = append(problems, c.createFailed(ctx, d, p, r.Err))
		case i >= len(results)-len(p.Delete) && (apierrors.IsNotFound(r.Err) || apierrors.IsConflict(r.Err)):
		default:
			problems = append(problems, r.Err)
		}
	}
	// A single conflict must stay recognizable as one.
	if len(problems) == 1 {
		return problems[0]
	}
	return errors.Join(problems...)
}

// wrote notes what creations and updates of the Deployment's sets have made.
func (c *deployments) wrote(d *appsv1.Deployment, results []object.Result) {
	var stored []*appsv1.ReplicaSet
	for _, r := range results {
		if r.Err != nil {
			continue
		}
		if rs, err := object.Decode(object.ReplicaSet, r.Object); err == nil {
			stored = append(stored, rs)
			c.writtenSets.Wrote(rs)
		}
	}
	if len(stored) > 0 {
		c.made.Note(d.UID, written.Newest(stored))
	}
}

// createFailed tells a name clash from the cache being behind, and puts any
// other failure into the status.
func (c *deployments) createFailed(ctx context.Context, d *appsv1.Deployment, p *Plan, problem error) error {
	switch {
	case apierrors.IsAlreadyExists(problem):
		rs, err := object.For(c.client, object.ReplicaSet).Get(ctx, d.Namespace, p.Create.Name)
		if err != nil {
			return err
		}
		if metav1.IsControlledBy(rs, d) && sameTemplate(&rs.Spec.Template, &d.Spec.Template) {
			// Ours, and the cache will show it: plan again then.
			return apierrors.NewConflict(object.ReplicaSet.GroupResource(), rs.Name, problem)
		}
		collided := *d.Status.DeepCopy()
		if collided.CollisionCount == nil {
			collided.CollisionCount = new(int32)
		}
		*collided.CollisionCount++
		if err := c.applyStatus(ctx, d, "", collided); err != nil {
			return err
		}
		return problem
	case apierrors.HasStatusCause(problem, corev1.NamespaceTerminatingCause):
		return nil // everything here is about to go
	}
	message := fmt.Sprintf("Failed to create new replica set %q: %v", p.Create.Name, problem)
	c.events.Event(d, corev1.EventTypeWarning, reasonFailed, message)
	if hasDeadline(d) {
		p.Status = failureStatus(d, message, c.clock.Now())
	}
	return problem
}

// failureStatus is the Deployment's status with the failure in its Progressing condition.
func failureStatus(d *appsv1.Deployment, message string, now time.Time) appsv1.DeploymentStatus {
	r := newRollout(d, Observed{}, now)
	r.setProgressing(corev1.ConditionFalse, reasonFailed, message)
	s := *d.Status.DeepCopy()
	s.Conditions = r.conditions
	return s
}

// applyStatus writes a status and a revision that differ from those of d. The
// revision goes with the status because there, as in Kubernetes, a changed
// annotation does not count as a new generation.
func (c *deployments) applyStatus(ctx context.Context, d *appsv1.Deployment, revision string, s appsv1.DeploymentStatus) error {
	if revision == "" && apiequality.Semantic.DeepEqual(d.Status, s) {
		return nil
	}
	updated := *d
	updated.Status = s
	if revision != "" {
		updated.Annotations = with(d.Annotations, revisionAnnotation, revision)
	}
	stored, err := object.For(c.client, object.Deployment).UpdateStatus(ctx, &updated)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update status: %w", err)
	}
	if err == nil {
		c.written.Wrote(stored)
	}
	return nil
}
