package cronjob

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// after is a time after noon.
func after(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(d)} }

// newCron is created at noon and starts at every full hour.
func newCron(change func(*batchv1.CronJob)) *batchv1.CronJob {
	cj := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", UID: "cron", CreationTimestamp: *after(0)},
		Spec: batchv1.CronJobSpec{
			Schedule: "0 * * * *", ConcurrencyPolicy: batchv1.AllowConcurrent,
			SuccessfulJobsHistoryLimit: ptr.To[int32](1), FailedJobsHistoryLimit: ptr.To[int32](1),
			JobTemplate: batchv1.JobTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"}},
				Spec:       batchv1.JobSpec{Parallelism: ptr.To[int32](3)},
			},
		},
	}
	if change != nil {
		change(cj)
	}
	return cj
}

// newJob is a job of newCron. condition is how it has ended, "" that it runs.
func newJob(name string, condition batchv1.JobConditionType, started time.Duration) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(newCron(nil), kind)},
	}, Status: batchv1.JobStatus{StartTime: after(started)}}
	if condition != "" {
		j.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue}}
	}
	if condition == batchv1.JobComplete {
		j.Status.CompletionTime = after(started + time.Minute)
	}
	return j
}

func refs(names ...string) []corev1.ObjectReference {
	var refs []corev1.ObjectReference
	for _, n := range names {
		refs = append(refs, corev1.ObjectReference{Name: n, UID: types.UID(n)})
	}
	return refs
}

func namesOf(refs []corev1.ObjectReference) string {
	var names []string
	for _, r := range refs {
		names = append(names, r.Name)
	}
	return strings.Join(names, ",")
}

func TestStart(t *testing.T) {
	t.Parallel()
	deadline := func(seconds int64) func(*batchv1.CronJob) {
		return func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = &seconds }
	}
	both := func(changes ...func(*batchv1.CronJob)) func(*batchv1.CronJob) {
		return func(cj *batchv1.CronJob) {
			for _, c := range changes {
				c(cj)
			}
		}
	}
	running := func(policy batchv1.ConcurrencyPolicy) func(*batchv1.CronJob) {
		return func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy, cj.Status.Active = policy, refs("old") }
	}
	schedule := func(text, zone string) func(*batchv1.CronJob) {
		return func(cj *batchv1.CronJob) {
			cj.Spec.Schedule = text
			if zone != "" {
				cj.Spec.TimeZone = &zone
			}
		}
	}
	last := func(d time.Duration) func(*batchv1.CronJob) {
		return func(cj *batchv1.CronJob) { cj.Status.LastScheduleTime = after(d) }
	}
	suspended := func(cj *batchv1.CronJob) { cj.Spec.Suspend = ptr.To(true) }
	for name, test := range map[string]struct {
		change  func(*batchv1.CronJob)
		now     time.Duration
		start   time.Duration // after noon; 0 is none
		replace string
		events  string // reasons
		again   time.Duration
	}{
		"not yet":                           {nil, 59 * time.Minute, 0, "", "", time.Minute + lateness},
		"now":                               {nil, time.Hour, time.Hour, "", "", time.Hour + lateness},
		"a little later":                    {nil, time.Hour + lateness, time.Hour, "", "", time.Hour},
		"started already":                   {last(time.Hour), time.Hour + time.Minute, 0, "", "", 59*time.Minute + lateness},
		"several missed: the last":          {nil, 3*time.Hour + time.Minute, 3 * time.Hour, "", "", 59*time.Minute + lateness},
		"a hundred missed":                  {nil, 100 * time.Hour, 100 * time.Hour, "", "", time.Hour + lateness},
		"more missed":                       {nil, 101 * time.Hour, 101 * time.Hour, "", "TooManyMissedTimes", time.Hour + lateness},
		"more missed, few within deadline":  {deadline(7200), 101 * time.Hour, 101 * time.Hour, "", "", time.Hour + lateness},
		"within the deadline":               {deadline(60), time.Hour + time.Minute, time.Hour, "", "", 59*time.Minute + lateness},
		"past the deadline":                 {deadline(60), time.Hour + 61*time.Second, 0, "", "MissSchedule", 59*time.Minute - time.Second + lateness},
		"a deadline longer than any time":   {deadline(1 << 62), 2 * time.Hour, 2 * time.Hour, "", "", time.Hour + lateness},
		"every hour, within the deadline":   {both(schedule("@every 1h", ""), deadline(10)), time.Hour + lateness, time.Hour, "", "", time.Hour},
		"suspended":                         {suspended, 2 * time.Hour, 0, "", "", 0},
		"being deleted":                     {func(cj *batchv1.CronJob) { cj.DeletionTimestamp = after(0) }, 2 * time.Hour, 0, "", "", 0},
		"one runs, allowed":                 {running(batchv1.AllowConcurrent), time.Hour, time.Hour, "", "", time.Hour + lateness},
		"one runs, forbidden":               {running(batchv1.ForbidConcurrent), time.Hour, 0, "", "JobAlreadyActive", time.Hour + lateness},
		"one runs, to be replaced":          {running(batchv1.ReplaceConcurrent), time.Hour, time.Hour, "old", "", time.Hour + lateness},
		"none runs, forbidden":              {func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ForbidConcurrent }, time.Hour, time.Hour, "", "", time.Hour + lateness},
		"this one runs already":             {func(cj *batchv1.CronJob) { cj.Status.Active = refs(jobName(cj, noon.Add(time.Hour))) }, time.Hour, 0, "", "", time.Hour + lateness},
		"another zone":                      {schedule("0 22 * * *", "Asia/Tokyo"), 2 * time.Hour, time.Hour, "", "", 23*time.Hour + lateness},
		"no such zone":                      {schedule("0 * * * *", "Nowhere/None"), time.Hour, 0, "", "UnknownTimeZone", 0},
		"no such zone, suspended":           {both(schedule("0 * * * *", "Nowhere/None"), suspended), time.Hour, 0, "", "UnknownTimeZone", 0},
		"a zone within the schedule":        {schedule("TZ=Asia/Tokyo 0 22 * * *", ""), time.Hour, time.Hour, "", "UnsupportedSchedule", 24*time.Hour + lateness},
		"no schedule":                       {schedule("often", ""), time.Hour, 0, "", "UnparseableSchedule", 0},
		"a schedule without any start":      {schedule("0 0 31 2 *", ""), time.Hour, 0, "", "InvalidSchedule", 0},
		"clock set back behind the last":    {last(5 * time.Hour), time.Hour, 0, "", "", 5*time.Hour + lateness},
		"irregular, within the longer time": {schedule("0 13,14 * * *", ""), 20 * time.Hour, 2 * time.Hour, "", "", 5*time.Hour + lateness},
	} {
		cj := newCron(test.change)
		seen := Observed{Jobs: []*batchv1.Job{}}
		for _, ref := range cj.Status.Active {
			seen.Jobs = append(seen.Jobs, newJob(ref.Name, "", 0))
		}
		before := cj.DeepCopy()
		p := Decide(cj, seen, noon.Add(test.now))
		var reasons []string
		for _, e := range p.Events {
			reasons = append(reasons, e.Reason)
		}
		if events := strings.Join(reasons, ","); events != test.events {
			t.Errorf("%s: events %v", name, p.Events)
		}
		if test.again > 0 && p.After != test.again || test.again == 0 && p.After > 0 {
			t.Errorf("%s: again after %v, want %v", name, p.After, test.again)
		}
		if (p.Create != nil) != (test.start != 0) || p.Create != nil && !p.Start.Equal(noon.Add(test.start)) {
			t.Errorf("%s: starts %v of %v, want %v", name, p.Create != nil, p.Start, noon.Add(test.start))
		}
		if got := namesOf(p.Replace); got != test.replace {
			t.Errorf("%s: replaces %s, want %s", name, got, test.replace)
		}
		if before.String() != cj.String() {
			t.Errorf("%s: the CronJob was changed", name)
		}
	}
}

func TestJobOf(t *testing.T) {
	t.Parallel()
	cj := newCron(func(cj *batchv1.CronJob) { cj.Spec.TimeZone = ptr.To("Asia/Tokyo") })
	j := Decide(cj, Observed{}, noon.Add(time.Hour)).Create
	if j.Name != "x-29922540" || j.Namespace != "default" || *j.Spec.Parallelism != 3 || j.Labels["l"] != "1" || len(j.Labels) != 1 {
		t.Errorf("%+v", j)
	}
	if len(j.Annotations) != 2 || j.Annotations["a"] != "2" || j.Annotations[batchv1.CronJobScheduledTimestampAnnotation] != "2026-11-22T22:00:00+09:00" {
		t.Errorf("annotations %v", j.Annotations)
	}
	if len(cj.Spec.JobTemplate.Annotations) != 1 {
		t.Error("the template was changed")
	}
	if ref := metav1.GetControllerOf(j); ref == nil || ref.Kind != "CronJob" || ref.APIVersion != "batch/v1" || ref.UID != cj.UID || !*ref.BlockOwnerDeletion {
		t.Errorf("owners %v", j.OwnerReferences)
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	cj := newCron(func(cj *batchv1.CronJob) {
		cj.Spec.Suspend, cj.Spec.FailedJobsHistoryLimit = ptr.To(true), nil
		cj.Spec.SuccessfulJobsHistoryLimit = ptr.To[int32](2)
		cj.Status.Active = refs("runs", "done", "failed", "gone", "late")
		cj.Status.LastSuccessfulTime = after(0)
	})
	leaving := newJob("leaving", "", time.Hour)
	leaving.DeletionTimestamp = after(0)
	p := Decide(cj, Observed{
		Jobs: []*batchv1.Job{
			newJob("runs", "", 0), newJob("stranger", "", 0), leaving, newJob("done", batchv1.JobComplete, time.Hour),
			newJob("earlier", batchv1.JobComplete, 0), newJob("failed", batchv1.JobFailed, 0),
		},
		Gone: map[types.UID]bool{"gone": true, "late": false},
	}, noon)
	if got := namesOf(p.Status.Active); got != "runs,late" {
		t.Errorf("active %s", got)
	}
	if got := p.Status.LastSuccessfulTime; !got.Equal(after(61 * time.Minute)) {
		t.Errorf("last success %v", got)
	}
	want := []Event{
		{"Normal", "SawCompletedJob", "Saw completed job: failed, condition: Failed"},
		{"Warning", "UnexpectedJob", "Saw a job that the controller did not create or forgot: stranger"},
		{"Normal", "SawCompletedJob", "Saw completed job: done, condition: Complete"},
		{"Normal", "MissingJob", "Active job went missing: gone"},
	}
	if !slices.Equal(p.Events, want) {
		t.Errorf("events %v", p.Events)
	}
	if len(p.Delete) != 0 || len(cj.Status.Active) != 5 {
		t.Errorf("deletes %v; active of the CronJob itself %v", p.Delete, cj.Status.Active)
	}
}

func TestExcess(t *testing.T) {
	t.Parallel()
	leaving := newJob("d", batchv1.JobComplete, 0)
	leaving.DeletionTimestamp = after(0)
	unstarted := newJob("u", batchv1.JobFailed, 0)
	unstarted.Status.StartTime = nil
	jobs := []*batchv1.Job{
		newJob("c", batchv1.JobComplete, 3*time.Hour), newJob("b", batchv1.JobComplete, 2*time.Hour), leaving,
		newJob("r", "", 0), unstarted, newJob("f", batchv1.JobFailed, 2*time.Hour), newJob("e", batchv1.JobFailed, 2*time.Hour),
	}
	for name, test := range map[string]struct {
		succeeded, failed *int32
		want              string
	}{
		"no limits":         {nil, nil, ""},
		"one of either":     {ptr.To[int32](1), ptr.To[int32](1), "b,e,f"},
		"none":              {ptr.To[int32](0), ptr.To[int32](0), "b,e,f,c,u"},
		"only failed ones":  {nil, ptr.To[int32](2), "e"},
		"the leaving count": {ptr.To[int32](2), nil, ""},
		"more than are":     {ptr.To[int32](9), ptr.To[int32](9), ""},
	} {
		cj := newCron(func(cj *batchv1.CronJob) {
			cj.Spec.Suspend, cj.Spec.SuccessfulJobsHistoryLimit, cj.Spec.FailedJobsHistoryLimit = ptr.To(true), test.succeeded, test.failed
		})
		var got []string
		for _, j := range Decide(cj, Observed{Jobs: jobs}, noon).Delete {
			got = append(got, j.Name)
		}
		if strings.Join(got, ",") != test.want {
			t.Errorf("%s: %v, want %s", name, got, test.want)
		}
	}
}
