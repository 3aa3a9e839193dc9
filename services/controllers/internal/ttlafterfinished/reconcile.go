package ttlafterfinished

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

type cleaner struct {
	client *object.Client
	jobs   *object.Informer[*batchv1.Job]
	clock  clock.PassiveClock
	late   prometheus.Observer
}

// New returns the controller. late observes the seconds between the time that jobs expired and their deletion.
func New(env *controller.Env, late prometheus.Observer) controller.Unit {
	c := &cleaner{client: env.Client, jobs: object.InformerFor(env.Informers, object.Job), clock: env.Clock, late: late}
	queue := reconcile.New(reconcile.Config{Name: "ttlafterfinished", Kind: "Job", Reconcile: c.reconcile, Metrics: env.Metrics})
	controller.Handle(env, c.jobs, func(_, job *batchv1.Job) {
		if job == nil {
			return
		}
		if _, ever := Expires(job); ever {
			queue.Enqueue(object.KeyOf(job), c.jobs.Trace(job))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{queue}}
}

// NewLateness registers the measure of how late jobs are deleted.
func NewLateness(registerer prometheus.Registerer) prometheus.Histogram {
	late := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "ttl_after_finished_controller_job_deletion_duration_seconds", Help: "Time from a job's expiry to its deletion.",
		Buckets: prometheus.ExponentialBuckets(0.1, 2, 14),
	})
	registerer.MustRegister(late)
	return late
}

// reconcile deletes a job that has expired, with what belongs to it. The job is read as of now, and only that very version of it goes: its
// time may have been prolonged a moment ago.
func (c *cleaner) reconcile(ctx context.Context, key string) (time.Duration, error) {
	cached, ok := c.jobs.GetKey(key)
	if !ok {
		return 0, nil
	}
	expires, ever := Expires(cached)
	if rest := expires.Sub(c.clock.Now()); !ever || rest > 0 {
		return max(0, rest), nil
	}
	resource := object.For(c.client, object.Job)
	job, err := resource.Get(ctx, cached.Namespace, cached.Name)
	if err != nil {
		return 0, ignoreGone(err)
	}
	expires, ever = Expires(job)
	if rest := expires.Sub(c.clock.Now()); !ever || rest > 0 {
		return max(0, rest), nil
	}
	err = resource.Delete(ctx, job.Namespace, job.Name, metav1.DeleteOptions{
		PropagationPolicy: ptr.To(metav1.DeletePropagationForeground),
		Preconditions:     object.AsSeen(job),
	})
	if err == nil && c.late != nil {
		c.late.Observe(c.clock.Since(expires).Seconds())
	}
	return 0, ignoreGone(err)
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
