package cronjob

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/written"
)

// cronJobs reconciles CronJobs.
type cronJobs struct {
	client   *object.Client
	cronJobs *object.Informer[*batchv1.CronJob]
	jobs     *object.Informer[*batchv1.Job]
	events   record.EventRecorder
	clock    clock.PassiveClock
	skew     prometheus.Observer
	queue    *reconcile.Controller
	written  *written.Versions
}

// New returns the controller. skew observes the seconds between starts and the creation of their jobs.
func New(env *controller.Env, skew prometheus.Observer) controller.Unit {
	c := &cronJobs{
		client: env.Client, cronJobs: object.InformerFor(env.Informers, object.CronJob), jobs: env.Jobs(),
		events: env.Recorder("cronjob-controller"), clock: env.Clock, skew: skew, written: written.New(env.Clock),
	}
	c.queue = reconcile.New(reconcile.Config{
		Name: "cronjob", Kind: kind.Kind, Workers: 5, Reconcile: c.reconcile, Metrics: env.Metrics, Clock: env.Clock,
	})
	controller.Handle(env, c.cronJobs, c.changed)
	controller.Handle(env, c.jobs, c.jobChanged)
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

// NewSkew registers Kubernetes' metric of how late jobs are created.
func NewSkew(registerer prometheus.Registerer) prometheus.Histogram {
	skew := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "cronjob_controller_job_creation_skew_duration_seconds",
		Help:    "Time between when a cronjob is scheduled to be run, and when the corresponding job is created",
		Buckets: prometheus.ExponentialBuckets(1, 2, 10),
	})
	registerer.MustRegister(skew)
	return skew
}

// changed has a CronJob reconciled at once, or with a new schedule at its next start: starts that the new schedule would have had are
// not made up for.
func (c *cronJobs) changed(old, new *batchv1.CronJob) {
	if old != nil && (new == nil || old.UID != new.UID) {
		c.written.Forget(old.UID)
	}
	switch {
	case new == nil:
	case old != nil && old.UID == new.UID && rescheduled(old, new):
		s, err := scheduleOf(new)
		if err != nil {
			c.events.Eventf(new, corev1.EventTypeWarning, "UnParseableCronJobSchedule", "unparseable schedule for cronjob: %s", new.Spec.Schedule)
			return
		}
		// One that never comes is told of at once: its time until the next start is negative.
		after, _ := untilNext(new, s, c.clock.Now())
		c.queue.EnqueueAfter(object.KeyOf(new), after)
	default:
		c.queue.Enqueue(object.KeyOf(new), c.cronJobs.Trace(new))
	}
}

func rescheduled(old, new *batchv1.CronJob) bool {
	return old.Spec.Schedule != new.Spec.Schedule || !ptr.Equal(old.Spec.TimeZone, new.Spec.TimeZone)
}

func (c *cronJobs) jobChanged(old, new *batchv1.Job) {
	for _, j := range []*batchv1.Job{old, new} {
		if j == nil {
			continue
		}
		if ref := metav1.GetControllerOfNoCopy(j); ref != nil && ref.Kind == kind.Kind && ref.APIVersion == kind.GroupVersion().String() {
			c.queue.Enqueue(object.Key(j.Namespace, ref.Name), c.jobs.Trace(j))
		}
	}
}

func (c *cronJobs) reconcile(ctx context.Context, key string) (time.Duration, error) {
	cj, ok := c.cronJobs.GetKey(key)
	if !ok {
		return 0, nil
	}
	if c.written.Behind(cj) {
		return written.Patience, nil // a job that has gone since it was made would be made again
	}
	jobs := c.jobs.ByIndex(controller.ByController, string(cj.UID))
	if !knows(cj, jobs) {
		// The cache may not show yet what the status says since the job was made.
		live, err := object.For(c.client, object.CronJob).Get(ctx, cj.Namespace, cj.Name)
		if err != nil {
			return 0, unlessGone(err)
		}
		if live.UID != cj.UID {
			return 0, nil
		}
		cj = live
	}
	gone, err := c.gone(ctx, cj, jobs)
	if err != nil {
		return 0, err
	}
	plan := Decide(cj, Observed{Jobs: jobs, Gone: gone}, c.clock.Now())
	return plan.After, c.apply(ctx, cj, plan)
}

// knows reports whether all jobs that run are in the status.
func knows(cj *batchv1.CronJob, jobs []*batchv1.Job) bool {
	for _, j := range jobs {
		if ended(j) == "" && j.DeletionTimestamp == nil && !active(&cj.Status, j.UID) {
			return false
		}
	}
	return true
}

// unlessGone forgives that an object is no more.
func unlessGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// gone asks the API for the active jobs that the cache does not have: it may not have them yet.
func (c *cronJobs) gone(ctx context.Context, cj *batchv1.CronJob, jobs []*batchv1.Job) (map[types.UID]bool, error) {
	seen := map[types.UID]bool{}
	for _, j := range jobs {
		seen[j.UID] = true
	}
	gone := map[types.UID]bool{}
	for _, ref := range cj.Status.Active {
		if seen[ref.UID] {
			continue
		}
		j, err := object.For(c.client, object.Job).Get(ctx, cj.Namespace, ref.Name)
		if unlessGone(err) != nil {
			return nil, fmt.Errorf("look for active job %s: %w", ref.Name, err)
		}
		gone[ref.UID] = err != nil || j.UID != ref.UID
	}
	return gone, nil
}

// apply does what the plan says. What is told of the status is told when it is written; a conflict has it planned anew.
func (c *cronJobs) apply(ctx context.Context, cj *batchv1.CronJob, p Plan) error {
	var problem error
	for _, j := range p.Delete {
		problem = errors.Join(problem, c.delete(ctx, cj, j.Name, j.UID))
	}
	if p.Create != nil {
		problem = errors.Join(problem, c.start(ctx, cj, &p))
	}
	if err := c.writeStatus(ctx, cj, p.Status); err != nil {
		return errors.Join(problem, err)
	}
	for _, e := range p.Events {
		c.events.Event(cj, e.Type, e.Reason, e.Message)
	}
	return problem
}

// start makes the plan's job, after those that it replaces are deleted, and puts it into the plan's status.
func (c *cronJobs) start(ctx context.Context, cj *batchv1.CronJob, p *Plan) error {
	for _, ref := range p.Replace {
		if err := c.delete(ctx, cj, ref.Name, ref.UID); err != nil {
			return fmt.Errorf("replace job %s: %w", ref.Name, err)
		}
		p.deactivate(ref.UID)
	}
	job, err := c.create(ctx, cj, p)
	if err != nil || job == nil {
		return err
	}
	p.Status.LastScheduleTime = &metav1.Time{Time: p.Start}
	if ended(job) == "" {
		p.Status.Active = append(p.Status.Active, corev1.ObjectReference{
			Kind: object.Job.GVK.Kind, APIVersion: object.Job.GVK.GroupVersion().String(),
			Namespace: job.Namespace, Name: job.Name, UID: job.UID, ResourceVersion: job.ResourceVersion,
		})
	}
	return nil
}

// create makes the plan's job, or finds it where it was made before and the status was not written. nil is a start that makes no job.
func (c *cronJobs) create(ctx context.Context, cj *batchv1.CronJob, p *Plan) (*batchv1.Job, error) {
	jobs := object.For(c.client, object.Job)
	job, err := jobs.Create(ctx, p.Create)
	switch {
	case err == nil:
		c.skew.Observe(job.CreationTimestamp.Sub(p.Start).Seconds())
		c.events.Eventf(cj, corev1.EventTypeNormal, "SuccessfulCreate", "Created job %v", job.Name)
		return job, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, nil // everything here is about to go
	case apierrors.IsAlreadyExists(err):
		job, err := jobs.Get(ctx, cj.Namespace, p.Create.Name)
		if err != nil || !metav1.IsControlledBy(job, cj) {
			return nil, err // another's job of this name takes the place of the start's
		}
		return job, nil
	}
	c.events.Eventf(cj, corev1.EventTypeWarning, "FailedCreate", "Error creating job: %v", err)
	return nil, err
}

// delete deletes a job and, after it, its pods.
func (c *cronJobs) delete(ctx context.Context, cj *batchv1.CronJob, name string, uid types.UID) error {
	err := object.For(c.client, object.Job).Delete(ctx, cj.Namespace, name, metav1.DeleteOptions{
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground), Preconditions: metav1.NewUIDPreconditions(string(uid)),
	})
	switch {
	case err == nil:
		c.events.Eventf(cj, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted job %v", name)
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err): // gone already, or a namesake took its place
		return nil
	default:
		c.events.Eventf(cj, corev1.EventTypeWarning, "FailedDelete", "Deleted job: %v", err)
	}
	return err
}

func (c *cronJobs) writeStatus(ctx context.Context, cj *batchv1.CronJob, status batchv1.CronJobStatus) error {
	if apiequality.Semantic.DeepEqual(cj.Status, status) {
		return nil
	}
	updated := *cj
	updated.Status = status
	stored, err := object.For(c.client, object.CronJob).UpdateStatus(ctx, &updated)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("update status: %w", err)
	}
	c.written.Wrote(stored)
	return nil
}
