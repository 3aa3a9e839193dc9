package cronjob

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// start runs the controller from noon on, ten minutes a second.
func start(t *testing.T, prepare func(*controllertest.Cluster)) *controllertest.Cluster {
	t.Helper()
	clock := clocktesting.NewFakeClock(noon)
	c := controllertest.Start(t, clock, prepare, func(env *controller.Env) (controller.Unit, error) {
		return New(env, NewSkew(prometheus.NewRegistry())), nil
	})
	c.Go(func(ctx context.Context) error {
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-ticker.C:
				clock.Step(6 * time.Second)
			}
		}
	})
	return c
}

// minutely is a CronJob as a client sends it.
func minutely(change func(*batchv1.CronJob)) *batchv1.CronJob {
	return newCron(func(cj *batchv1.CronJob) {
		cj.UID, cj.CreationTimestamp, cj.Spec.Schedule = "", metav1.Time{}, "* * * * *"
		if change != nil {
			change(cj)
		}
	})
}

// finish ends a job.
func finish(c *controllertest.Cluster, j *batchv1.Job, how batchv1.JobConditionType) {
	j = j.DeepCopy()
	j.Status.StartTime, j.Status.CompletionTime = &j.CreationTimestamp, &j.CreationTimestamp
	j.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue}}
	controllertest.UpdateStatus(c, object.Job, j)
}

// awaitEvent returns when the event has been recorded.
func awaitEvent(c *controllertest.Cluster, prefix string) {
	c.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case e := <-c.Events.Events:
			if strings.HasPrefix(e, prefix) {
				return
			}
		case <-late:
			c.Fatalf("no event %q", prefix)
		}
	}
}

func TestStartsAndKeeps(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	cj := controllertest.Create(c, object.CronJob, minutely(nil))
	jobs := controllertest.Await(c, object.Job, "two jobs", func(jobs []*batchv1.Job) bool { return len(jobs) >= 2 })
	slices.SortFunc(jobs, func(a, b *batchv1.Job) int { return strings.Compare(a.Name, b.Name) })
	for i, j := range jobs[:2] {
		scheduled, err := time.Parse(time.RFC3339, j.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
		if err != nil || !metav1.IsControlledBy(j, cj) || j.Name != jobName(cj, scheduled) {
			t.Errorf("job %d: %+v, %v", i, j.ObjectMeta, err)
		}
	}
	awaitEvent(c, "Normal SuccessfulCreate Created job "+jobs[0].Name)
	controllertest.Await(c, object.CronJob, "both active", func(all []*batchv1.CronJob) bool {
		s := all[0].Status
		return active(&s, jobs[0].UID) && active(&s, jobs[1].UID) && s.LastScheduleTime != nil
	})
	finish(c, jobs[0], batchv1.JobComplete)
	awaitEvent(c, "Normal SawCompletedJob Saw completed job: "+jobs[0].Name+", condition: Complete")
	finish(c, jobs[1], batchv1.JobComplete)
	awaitEvent(c, "Normal SuccessfulDelete Deleted job "+jobs[0].Name)
	controllertest.Await(c, object.CronJob, "a success and none of both active", func(all []*batchv1.CronJob) bool {
		s := all[0].Status
		return !active(&s, jobs[0].UID) && !active(&s, jobs[1].UID) && s.LastSuccessfulTime.Equal(&jobs[1].CreationTimestamp)
	})
}

func TestReplaces(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	controllertest.Create(c, object.CronJob, minutely(func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ReplaceConcurrent }))
	first := controllertest.Await(c, object.Job, "a job", func(jobs []*batchv1.Job) bool { return len(jobs) == 1 })[0]
	controllertest.Await(c, object.Job, "another in its place", func(jobs []*batchv1.Job) bool {
		return len(jobs) == 1 && jobs[0].Name != first.Name
	})
	awaitEvent(c, "Normal SuccessfulDelete Deleted job "+first.Name)
}

func TestForgetsWhatIsMissing(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	controllertest.Create(c, object.CronJob, minutely(func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ForbidConcurrent }))
	first := controllertest.Await(c, object.Job, "a job", func(jobs []*batchv1.Job) bool { return len(jobs) == 1 })[0]
	awaitEvent(c, "Normal JobAlreadyActive Not starting job because prior execution is running and concurrency policy is Forbid")
	controllertest.Delete(c, object.Job, "default", first.Name, metav1.DeleteOptions{})
	awaitEvent(c, "Normal MissingJob Active job went missing: "+first.Name)
	controllertest.Await(c, object.Job, "the next", func(jobs []*batchv1.Job) bool { return len(jobs) == 1 && jobs[0].Name != first.Name })
}

// TestOneJobAStart: though every other status cannot be written, a start has one job, and it gets into the status.
func TestOneJobAStart(t *testing.T) {
	t.Parallel()
	var created, writes atomic.Int32
	c := start(t, func(c *controllertest.Cluster) {
		c.API.Intercept = func(w objecttest.Write) error {
			switch {
			case w.Verb == "create" && w.Resource == "jobs":
				created.Add(1)
			case w.Resource == "cronjobs" && w.Subresource == "status" && writes.Add(1)%2 == 1:
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		}
	})
	cj := controllertest.Create(c, object.CronJob, minutely(func(cj *batchv1.CronJob) { cj.Spec.Schedule = "0 13 * * *" }))
	controllertest.Await(c, object.CronJob, "the job in the status", func(all []*batchv1.CronJob) bool {
		return len(all[0].Status.Active) == 1 && all[0].Status.LastScheduleTime != nil
	})
	if jobs := controllertest.List(c, object.Job); len(jobs) != 1 || jobs[0].Name != jobName(cj, noon.Add(time.Hour)) || created.Load() < 2 {
		t.Errorf("%d creations, jobs %v", created.Load(), jobs)
	}
}

// TestNoSecondJob has a job go before the cache shows that its start is behind: another would run it a second time.
func TestNoSecondJob(t *testing.T) {
	t.Parallel()
	var (
		late    *objecttest.Late
		release = func() {}
		made    = make(chan string, 100)
	)
	c := start(t, func(c *controllertest.Cluster) {
		late, c.Client = c.API.ServeLate(t)
		c.API.Intercept = func(w objecttest.Write) error {
			if w.Verb == "create" && w.Resource == "jobs" {
				release() // of the one before
				release = late.Hold("cronjobs")
				made <- w.Name
			}
			return nil
		}
	})
	cj := controllertest.Create(c, object.CronJob, minutely(func(cj *batchv1.CronJob) { cj.Spec.Schedule = "5 12 * * *" }))
	first := <-made
	for { // until the status has been written
		now, err := object.For(c.Client, object.CronJob).Get(t.Context(), cj.Namespace, cj.Name)
		if err != nil {
			t.Fatal(err)
		}
		if now.Status.LastScheduleTime != nil {
			break
		}
	}
	controllertest.Delete(c, object.Job, cj.Namespace, first, metav1.DeleteOptions{})
	select {
	case second := <-made:
		if second == first {
			t.Errorf("job %s is made again", second)
		}
	case <-time.After(200 * time.Millisecond): // nothing tells that the controller has looked
	}
}

// TestNewScheduleLooksAhead: a start that only the new schedule would have had is not made up for.
func TestNewScheduleLooksAhead(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	cj := controllertest.Create(c, object.CronJob, minutely(func(cj *batchv1.CronJob) { cj.Spec.Schedule = "0 20 * * *" }))
	controllertest.Create(c, object.CronJob, minutely(func(cj *batchv1.CronJob) { cj.Name, cj.Spec.Schedule = "y", "5 12 * * *" }))
	controllertest.Await(c, object.Job, "five minutes to pass", func(jobs []*batchv1.Job) bool { return len(jobs) == 1 })
	cj.Spec.Schedule, cj.Spec.TimeZone = "1,30 12 * * *", ptr.To("UTC")
	if _, err := object.For(c.Client, object.CronJob).Update(t.Context(), cj); err != nil {
		t.Fatal(err)
	}
	controllertest.Await(c, object.Job, "the next", func(jobs []*batchv1.Job) bool {
		for _, j := range jobs {
			if metav1.IsControlledBy(j, cj) && j.Name != jobName(cj, noon.Add(30*time.Minute)) {
				t.Fatalf("job %s is for a start that has passed", j.Name)
			}
		}
		return len(jobs) == 2
	})
}
