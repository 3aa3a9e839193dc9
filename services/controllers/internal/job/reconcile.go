package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"
	batchv1 "k8s.io/api/batch/v1"
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
	"howdah.dev/services/controllers/internal/podcontrol"
	"howdah.dev/services/controllers/internal/written"
)

const (
	// catchUp is how long caches that are behind are given before the API is asked again.
	catchUp = time.Second
	// batch is how long after a change of a pod or of the status a job is looked at: Kubernetes' SyncJobBatchPeriod.
	batch = time.Second
)

var kind = batchv1.SchemeGroupVersion.WithKind("Job")

// jobs reconciles Jobs.
type jobs struct {
	client  *object.Client
	jobs    *object.Informer[*batchv1.Job]
	pods    *object.Informer[*corev1.Pod]
	control *podcontrol.Control
	events  record.EventRecorder
	clock   clock.PassiveClock
	queue   *reconcile.Controller
	orphans *reconcile.Controller // keys of pods that no job will count
	memory  memory
	metrics *Metrics
}

// New returns the controller; metrics may be nil.
func New(env *controller.Env, metrics *Metrics) controller.Unit {
	c := build(env, metrics)
	c.queue = reconcile.New(reconcile.Config{Name: "job", Kind: kind.Kind, Workers: 8, Reconcile: c.reconcile, Metrics: env.Metrics, Clock: env.Clock})
	c.orphans = reconcile.New(reconcile.Config{Name: "job_orphan_pod", Kind: "Pod", Workers: 2, Reconcile: c.reconcileOrphan, Metrics: env.Metrics})
	controller.Handle(env, c.jobs, c.jobChanged)
	c.control.Follow(env, batched{c.queue}, c.mayAdopt)
	controller.Handle(env, c.pods, c.podChanged)
	return controller.Unit{Queues: []*reconcile.Controller{c.queue, c.orphans}}
}

func build(env *controller.Env, metrics *Metrics) *jobs {
	events := env.Recorder("job-controller")
	return &jobs{
		client: env.Client, jobs: object.InformerFor(env.Informers, object.Job), pods: env.Pods(), events: events, clock: env.Clock,
		control: podcontrol.New(env, kind, events).WithFinalizer(batchv1.JobTrackingFinalizer), metrics: metrics,
	}
}

// batched is the queue of what pods ask for.
type batched struct{ queue *reconcile.Controller }

// Enqueue implements podcontrol.Queue.
func (b batched) Enqueue(key string, by trace.SpanContext) { b.queue.EnqueueWithin(key, by, batch) }

func (c *jobs) jobChanged(old, new *batchv1.Job) {
	if old != nil && (new == nil || old.UID != new.UID || Finished(new)) {
		c.control.Forget(old.UID)
		c.memory.forget(old.UID)
		c.orphaned(old)
	}
	if new == nil {
		return
	}
	if old == nil {
		c.metrics.seen(new)
	}
	switch key := object.KeyOf(new); {
	case Finished(new):
	case old == nil || old.UID != new.UID || old.Generation != new.Generation:
		c.queue.Enqueue(key, c.jobs.Trace(new))
	default:
		batched{c.queue}.Enqueue(key, c.jobs.Trace(new))
	}
}

// ours says whether the job is not left to another controller.
func ours(job *batchv1.Job) bool {
	return job.Spec.ManagedBy == nil || *job.Spec.ManagedBy == batchv1.JobControllerName
}

// mayAdopt returns the jobs that select an orphan.
func (c *jobs) mayAdopt(p *corev1.Pod) (keys []string) {
	for _, job := range c.jobs.List(p.Namespace) {
		s, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
		if err == nil && s.Matches(labels.Set(p.Labels)) && ours(job) && !Finished(job) {
			keys = append(keys, object.KeyOf(job))
		}
	}
	return keys
}

// reconcile takes one job a step further: it makes and removes pods, writes down their ends, takes the finalizer off those whose end is
// written down, and counts these when they show. What it waits for calls it again.
func (c *jobs) reconcile(ctx context.Context, key string) (time.Duration, error) {
	job, ok := c.jobs.GetKey(key)
	if !ok || Finished(job) || !ours(job) {
		return 0, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	if err != nil || selector.Empty() {
		return 0, nil // validation refuses both; nothing sensible can be done
	}
	m := c.memory.of(job.UID)
	if c.control.Behind(job) { // it counts what that status has counted
		c.metrics.stale(object.Job.GroupResource())
		return podcontrol.Patience, nil // the event of the newer one calls again
	}
	if !m.current {
		if m.current, err = c.current(ctx, job, selector); err != nil || !m.current {
			return catchUp, err
		}
		return c.reconcile(ctx, key) // with what the caches show now
	}
	after, next, err := c.step(ctx, job, selector, m)
	if err == nil && next != nil {
		after, _, err = c.step(ctx, next, selector, m)
	}
	return after, err
}

// step plans and carries out one step. Where pods whose end is noted have lost their finalizer and so can be counted, or where the namespace is found
// to be about to go, it returns the job to go on with, as the API has it now.
func (c *jobs) step(ctx context.Context, job *batchv1.Job, selector labels.Selector, m *memo) (after time.Duration, next *batchv1.Job, err error) {
	now := c.clock.Now()
	settled := c.control.Settled(job.UID)
	own := m.seen(c.pods.ByIndex(controller.ByController, string(job.UID)))
	m.failures.See(job, own)
	plan := Decide(job, selector, Observed{
		Pods:    append(own, c.pods.ByIndex(controller.ByController, controller.OrphansOf(job.Namespace))...),
		Settled: settled, Wait: m.failures.Wait(now), Leaving: m.leaving,
	}, now)
	next, err = c.apply(ctx, job, m, plan)
	c.metrics.synced(job, plan, settled, err, c.clock.Since(now))
	after = plan.After
	if !settled || len(plan.Create) > 0 {
		after = sooner(after, podcontrol.Patience) // should the events never come
	}
	return after, next, err
}

// current says whether the caches show what the API has: all of the job's pods, and the job, at least as new. It is asked once a job and
// leadership. Pods that were counted and are gone, or that were made, by an earlier leader would be counted, or made, again.
func (c *jobs) current(ctx context.Context, job *batchv1.Job, selector labels.Selector) (bool, error) {
	live, err := object.For(c.client, object.Job).Get(ctx, job.Namespace, job.Name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read job: %w", err)
	}
	pods, _, err := object.For(c.client, object.Pod).List(ctx, job.Namespace, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return false, fmt.Errorf("list pods of job: %w", err)
	}
	there := map[string]bool{}
	for _, p := range pods {
		if !metav1.IsControlledBy(p, job) {
			continue
		}
		there[p.Name] = true
		if cached, ok := c.pods.Get(p.Namespace, p.Name); !ok || written.Version(cached) < written.Version(p) {
			c.metrics.stale(object.Pod.GroupResource())
			return false, nil
		}
	}
	for _, p := range c.pods.ByIndex(controller.ByController, string(job.UID)) {
		if !there[p.Name] && selector.Matches(labels.Set(p.Labels)) {
			c.metrics.stale(object.Pod.GroupResource())
			return false, nil
		}
	}
	if written.Version(job) < written.Version(live) {
		c.metrics.stale(object.Job.GroupResource())
		return false, nil
	}
	return true, nil
}

// apply carries out a plan and returns the stored job, where ends of pods were noted or another plan is to be made at once. Whatever else fails, they are.
func (c *jobs) apply(ctx context.Context, job *batchv1.Job, m *memo, plan Plan) (next *batchv1.Job, err error) {
	if len(plan.Adopt)+len(plan.Release) > 0 {
		live := func(ctx context.Context) (metav1.Object, error) {
			return object.For(c.client, object.Job).Get(ctx, job.Namespace, job.Name)
		}
		return nil, c.control.Claim(ctx, job, plan.Adopt, plan.Release, live)
	}
	status := plan.Status
	problem := c.remove(ctx, job, m, plan)
	if problem == nil {
		status = plan.Removed()
	}
	if len(plan.Create) > 0 {
		problem = c.create(ctx, job, plan.Create, m.refused)
		if apierrors.HasStatusCause(problem, corev1.NamespaceTerminatingCause) {
			m.leaving = true
			return job, nil // what waits for new pods need not
		}
		if m.refused = problem != nil; !m.refused && len(plan.Counted)+len(plan.Events) == 0 {
			return nil, nil // the events of the new pods bring the status
		}
	}
	stored, err := c.write(ctx, job, m, status, plan.Events)
	if err != nil || stored == nil {
		return nil, errors.Join(problem, err)
	}
	c.metrics.judged(plan.Judged)
	if len(plan.Counted) > 0 {
		next = stored
	}
	return next, errors.Join(problem, m.untracked(c.untrack(ctx, plan.Counted, nil)))
}

// remove deletes the pods that the job does not want, and those that it stops.
func (c *jobs) remove(ctx context.Context, job *batchv1.Job, m *memo, plan Plan) error {
	if len(plan.Surplus) > 0 {
		if err := m.untracked(c.untrack(ctx, plan.Surplus, nil)); err != nil {
			return err
		}
		if err := c.control.Delete(ctx, job, plan.Surplus); err != nil {
			return err
		}
	}
	if len(plan.Stop) > 0 {
		return c.control.Delete(ctx, job, plan.Stop)
	}
	return nil
}

// create makes the pods. Their names begin as the index says.
func (c *jobs) create(ctx context.Context, job *batchv1.Job, pods []NewPod, failedBefore bool) error {
	podOf, byName, names := podsOf(job), map[string]NewPod{}, []string(nil)
	add := func(fresh []string, pods []NewPod) {
		for i, name := range fresh {
			byName[name] = pods[i]
		}
		names = append(names, fresh...)
	}
	if indexed(job) {
		for i, p := range pods {
			add(c.control.Names(job, prefix(job, p.Index), 1), pods[i:])
		}
	} else {
		add(c.control.Names(job, prefix(job, none), len(pods)), pods)
	}
	err := c.control.TryCreate(ctx, job, names, func(name string) *corev1.Pod { return podOf(byName[name], name) }, failedBefore)
	c.metrics.created(job, len(pods), err)
	return err
}

// write stores a status that has changed, tells of it, and returns the job with it, nil where the job is gone.
func (c *jobs) write(ctx context.Context, job *batchv1.Job, m *memo, status batchv1.JobStatus, events []Event) (*batchv1.Job, error) {
	if apiequality.Semantic.DeepEqual(job.Status, status) {
		return job, nil
	}
	updated := *job
	updated.Status = status
	stored, err := object.For(c.client, object.Job).UpdateStatus(ctx, &updated)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("update status: %w", err)
	}
	c.control.Wrote(stored)
	for _, e := range events {
		c.events.Event(job, e.Type, e.Reason, e.Message)
	}
	c.metrics.wrote(job, stored)
	return stored, nil
}
