// Package cronjob makes a Job at each start of a CronJob's schedule, and keeps as many of those that have ended as it asks for.
package cronjob

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"howdah.dev/services/internal/schedule"
)

const (
	// lateness is how long after a start it is looked for, so that clocks that differ a little do not have it looked for too early.
	lateness = 100 * time.Millisecond
	// manyMissed is how many starts may be missed before an event says so.
	manyMissed = 100
)

var kind = batchv1.SchemeGroupVersion.WithKind("CronJob")

// Observed is what a plan depends on besides the CronJob itself.
type Observed struct {
	Jobs []*batchv1.Job     // those that it controls
	Gone map[types.UID]bool // jobs of its status of which the API says that they are no more
}

// Plan is what to do about one CronJob, in the order of the fields.
type Plan struct {
	Delete  []*batchv1.Job           // beyond what is to be kept
	Replace []corev1.ObjectReference // still running, to be deleted before Create
	Create  *batchv1.Job             // nil makes none
	Start   time.Time                // the start of the schedule that Create is for
	// Status is what holds without Replace and Create.
	Status batchv1.CronJobStatus
	Events []Event
	// After is when to look again though nothing changes; 0 is never.
	After time.Duration
}

// Event is an event about the CronJob.
type Event struct{ Type, Reason, Message string }

// Decide plans one CronJob.
func Decide(cj *batchv1.CronJob, seen Observed, now time.Time) Plan {
	seen.Jobs = slices.SortedFunc(slices.Values(seen.Jobs), byStart)
	p := Plan{Status: *cj.Status.DeepCopy(), Delete: excess(&cj.Spec, seen.Jobs)}
	for _, j := range p.Delete {
		p.deactivate(j.UID)
	}
	p.settle(seen)
	if cj.DeletionTimestamp == nil {
		p.start(cj, now)
	}
	return p
}

func (p *Plan) tell(eventType, reason, format string, args ...any) {
	p.Events = append(p.Events, Event{eventType, reason, fmt.Sprintf(format, args...)})
}

// settle brings the status up to what has become of the jobs.
func (p *Plan) settle(seen Observed) {
	for _, j := range seen.Jobs {
		result := ended(j)
		switch listed := active(&p.Status, j.UID); {
		case result == "" && !listed && j.DeletionTimestamp == nil:
			p.tell(corev1.EventTypeWarning, "UnexpectedJob", "Saw a job that the controller did not create or forgot: %s", j.Name)
		case result != "" && listed:
			p.deactivate(j.UID)
			p.tell(corev1.EventTypeNormal, "SawCompletedJob", "Saw completed job: %s, condition: %v", j.Name, result)
		}
		if t := j.Status.CompletionTime; result == batchv1.JobComplete && t != nil && (p.Status.LastSuccessfulTime == nil || p.Status.LastSuccessfulTime.Before(t)) {
			p.Status.LastSuccessfulTime = t
		}
	}
	for _, ref := range slices.Clone(p.Status.Active) {
		if seen.Gone[ref.UID] {
			p.deactivate(ref.UID)
			p.tell(corev1.EventTypeNormal, "MissingJob", "Active job went missing: %v", ref.Name)
		}
	}
}

// start plans the job of the latest start that was missed, and when to look for the next one.
func (p *Plan) start(cj *batchv1.CronJob, now time.Time) {
	zone, err := time.LoadLocation(ptr.Deref(cj.Spec.TimeZone, ""))
	if err != nil {
		p.tell(corev1.EventTypeWarning, "UnknownTimeZone", "invalid timeZone: %q: %s", *cj.Spec.TimeZone, err)
		return
	}
	if ptr.Deref(cj.Spec.Suspend, false) {
		return
	}
	if zoned(cj) {
		p.tell(corev1.EventTypeWarning, "UnsupportedSchedule",
			"CRON_TZ or TZ used in schedule %q is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", cj.Spec.Schedule)
	}
	s, err := scheduleOf(cj)
	if err != nil {
		p.tell(corev1.EventTypeWarning, "UnparseableSchedule", "unparseable schedule: %q : %s", cj.Spec.Schedule, err)
		return
	}
	if p.After, err = untilNext(cj, s, now); err != nil {
		p.tell(corev1.EventTypeWarning, "InvalidSchedule", "invalid schedule: %s : %s", cj.Spec.Schedule, err)
		return
	}
	if latest, ok := s.Latest(anchor(cj), now); ok && p.mayStart(cj, s, latest, now) {
		p.Create, p.Start = jobOf(cj, latest, zone), latest
	}
}

// mayStart says whether a job is made for a start that was missed until now, and whether others make place for it.
func (p *Plan) mayStart(cj *batchv1.CronJob, s schedule.Schedule, start, now time.Time) bool {
	since := anchor(cj)
	if d := cj.Spec.StartingDeadlineSeconds; d != nil {
		opens := now.Add(-time.Duration(min(*d, math.MaxInt64/int64(time.Second))) * time.Second)
		if start.Before(opens) {
			p.tell(corev1.EventTypeWarning, "MissSchedule", "Missed scheduled time to start a job: %s", start.UTC().Format(time.RFC1123Z))
			return false
		}
		if opens.After(since) {
			since = opens
		}
	}
	if s.Exceeds(manyMissed, since, now) {
		p.tell(corev1.EventTypeWarning, "TooManyMissedTimes",
			"too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	name := jobName(cj, start)
	switch {
	case slices.ContainsFunc(p.Status.Active, func(ref corev1.ObjectReference) bool { return ref.Name == name }):
		return false // made already; the status's time was set back
	case len(p.Status.Active) == 0:
	case cj.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent:
		p.tell(corev1.EventTypeNormal, "JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
		return false
	case cj.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent:
		p.Replace = slices.Clone(p.Status.Active)
	}
	return true
}

// anchor is the time from which on starts were missed.
func anchor(cj *batchv1.CronJob) time.Time {
	if t := cj.Status.LastScheduleTime; t != nil {
		return t.Time
	}
	return cj.CreationTimestamp.Time
}

// untilNext is how long it is until the first start after now is to be looked for.
func untilNext(cj *batchv1.CronJob, s schedule.Schedule, now time.Time) (time.Duration, error) {
	from, missed := s.Latest(anchor(cj), now)
	if !missed {
		from = anchor(cj)
	}
	next, err := s.Next(from)
	return next.Add(lateness).Sub(now), err
}

// zoned reports whether the schedule itself names a time zone, which only one that was stored long ago can.
func zoned(cj *batchv1.CronJob) bool { return strings.Contains(cj.Spec.Schedule, "TZ") }

func scheduleOf(cj *batchv1.CronJob) (schedule.Schedule, error) {
	text := cj.Spec.Schedule
	if zone := cj.Spec.TimeZone; zone != nil && !zoned(cj) {
		text = "TZ=" + *zone + " " + text
	}
	return schedule.Parse(text)
}

// jobName is the same whenever the start's job is made, so that it is made once.
func jobName(cj *batchv1.CronJob, start time.Time) string {
	return fmt.Sprintf("%s-%d", cj.Name, start.Unix()/60)
}

// jobOf returns the job of a start.
func jobOf(cj *batchv1.CronJob, start time.Time, zone *time.Location) *batchv1.Job {
	t := cj.Spec.JobTemplate.DeepCopy()
	metav1.SetMetaDataAnnotation(&t.ObjectMeta, batchv1.CronJobScheduledTimestampAnnotation, start.In(zone).Format(time.RFC3339))
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cj.Namespace, Name: jobName(cj, start), Labels: t.Labels, Annotations: t.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cj, kind)},
		},
		Spec: t.Spec,
	}
}

// excess returns the oldest jobs that have ended, beyond what is to be kept of either result.
func excess(spec *batchv1.CronJobSpec, jobs []*batchv1.Job) []*batchv1.Job {
	var all []*batchv1.Job
	for result, limit := range map[batchv1.JobConditionType]*int32{
		batchv1.JobComplete: spec.SuccessfulJobsHistoryLimit, batchv1.JobFailed: spec.FailedJobsHistoryLimit,
	} {
		if limit == nil {
			continue
		}
		of := slices.DeleteFunc(slices.Clone(jobs), func(j *batchv1.Job) bool { return ended(j) != result })
		all = append(all, of[:max(0, len(of)-int(*limit))]...)
	}
	// Those that go already count among the oldest, or younger ones would go in their place.
	all = slices.DeleteFunc(all, func(j *batchv1.Job) bool { return j.DeletionTimestamp != nil })
	slices.SortFunc(all, byStart)
	return all
}

// byStart orders jobs by when they started, those that have not last, then by name.
func byStart(a, b *batchv1.Job) int {
	s, t := a.Status.StartTime, b.Status.StartTime
	switch {
	case s == nil && t != nil:
		return 1
	case s != nil && t == nil:
		return -1
	case s != nil && !s.Equal(t):
		return s.Compare(t.Time)
	}
	return cmp.Compare(a.Name, b.Name)
}

// ended is how a job has ended, Complete or Failed; "" while it has not.
func ended(j *batchv1.Job) batchv1.JobConditionType {
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

func active(status *batchv1.CronJobStatus, uid types.UID) bool {
	return slices.ContainsFunc(status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == uid })
}

func (p *Plan) deactivate(uid types.UID) {
	p.Status.Active = slices.DeleteFunc(p.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == uid })
}
