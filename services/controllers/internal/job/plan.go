// Package job runs the pods of Jobs to their ends, and counts each of these once.
package job

import (
	"cmp"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"howdah.dev/services/controllers/internal/owner"
	"howdah.dev/services/controllers/internal/pod"
)

const (
	// mostNoted bounds how many ends the status has yet to count: a uid takes 40 bytes there.
	mostNoted = 500
	// mostWrites bounds how many pods are made or removed before the job is looked at again.
	mostWrites = 500
)

// Observed is what a plan is made from.
type Observed struct {
	// Pods are the namespace's pods that the job controls or may adopt; others are ignored.
	Pods []*corev1.Pod
	// Settled says that the pods show all that earlier plans did.
	Settled bool
	// Wait is how long the failures of pods delay new ones; the limits of single indexes have delays of their own.
	Wait time.Duration
	// Leaving says that the namespace is about to go, and takes no new pods.
	Leaving bool
}

// NewPod is a pod to create.
type NewPod struct {
	// Index is its completion index, none (-1) in a job without.
	Index int
	// Failures and Ignored count the pods of the index that failed before, where the job limits these.
	Failures, Ignored int32
}

// Plan is what to do for one job, in this order.
type Plan struct {
	// Adopt and Release come alone: what they change must show first.
	Adopt, Release []*corev1.Pod
	// Surplus are pods to delete that count for nothing: they lose their finalizer before.
	Surplus []*corev1.Pod
	// Stop are pods to delete because the job is over. They keep their finalizer until they are counted.
	Stop   []*corev1.Pod
	Create []NewPod
	// Status is what to write after the pods. It counts active pods as they were before; see Removed.
	Status batchv1.JobStatus
	// Counted are pods to take the finalizer off, once Status is stored.
	Counted []*corev1.Pod
	// Judged counts the failures that Status takes note of or ignores by a rule of the pod failure policy, by the rule's action.
	Judged map[batchv1.PodFailurePolicyAction]int
	// Events tell of Status, once it is stored.
	Events []Event
	// After is when time alone changes the plan; 0 is never.
	After time.Duration
}

// Event is an event of a job.
type Event struct{ Type, Reason, Message string }

// Decide plans one job that is not finished. It makes and removes pods only when they are settled; counting never waits for that.
func Decide(job *batchv1.Job, selector labels.Selector, seen Observed, now time.Time) Plan {
	claims := owner.Claim(job, selector, seen.Pods)
	if len(claims.Adopt)+len(claims.Release) > 0 {
		return Plan{Adopt: claims.Adopt, Release: claims.Release, Status: job.Status}
	}
	t := count(job, claims.Own)
	if seen.Leaving {
		t.last = nil // none gets a successor that it has to be kept for, and the namespace waits for its pods
	}
	p := Plan{Status: *job.Status.DeepCopy()}
	if p.Status.UncountedTerminatedPods == nil {
		p.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	if p.Status.StartTime == nil && !suspended(job) {
		p.Status.StartTime = &metav1.Time{Time: now}
	}
	v := t.early(now)
	switch {
	case !seen.Settled:
	case v != nil:
		p.Stop = t.active
	case job.DeletionTimestamp == nil:
		p.manage(t, seen, now)
		if v = t.complete(len(t.active) - len(p.Surplus) + len(p.Create)); v == nil {
			p.suspend(job, now)
		}
	}
	if rest, has := deadline(job, now); has && v == nil {
		p.After = sooner(p.After, rest)
	}
	if seen.Settled {
		p.Status.Active, p.Status.Ready = int32(len(t.active)), ready(t.active)
		terminating := int32(len(t.terminating))
		p.Status.Terminating = &terminating
	}
	t.settle(&p.Status)
	p.Counted, p.Judged = t.note(&p.Status, v), t.judged
	if v != nil {
		p.conclude(t, v, seen.Settled, now)
	}
	return p
}

// manage plans the pods of a job that goes on.
func (p *Plan) manage(t *tally, seen Observed, now time.Time) {
	want, wait := t.want(), seen.Wait
	if p.Surplus = t.surplus(want); len(p.Surplus) > 0 || suspended(t.job) || seen.Leaving {
		return
	}
	missing := want - len(t.active)
	if onlyFailed(t.job) {
		missing -= len(t.terminating)
	}
	if missing = min(missing, mostWrites); missing <= 0 {
		return
	}
	if t.job.Spec.BackoffLimitPerIndex != nil {
		p.Create, wait = t.ofIndexes(missing, now)
	}
	switch {
	case wait > 0 && len(p.Create) == 0:
		p.After = sooner(p.After, wait)
	case t.job.Spec.BackoffLimitPerIndex != nil:
	case indexed(t.job):
		for _, i := range t.pending(missing) {
			p.Create = append(p.Create, NewPod{Index: i})
		}
	default:
		p.Create = slices.Repeat([]NewPod{{Index: none}}, missing)
	}
}

// want is how many pods should be active.
func (t *tally) want() int {
	parallel := int(deref(t.job.Spec.Parallelism))
	switch {
	case suspended(t.job):
		return 0
	case t.job.Spec.Completions != nil:
		return max(0, min(parallel, t.completions()-int(t.succeeded)))
	case t.succeeded > 0: // what runs may finish, nothing more is begun
		return len(t.active)
	}
	return parallel
}

// pending returns the first n indexes that have no pod and need one.
func (t *tally) pending(n int) []int {
	taken := t.done.Union(t.lost).Union(indexesOf(t.active))
	if onlyFailed(t.job) {
		taken = taken.Union(indexesOf(t.terminating))
	}
	return taken.Missing(t.completions(), n)
}

// ofIndexes returns the pods of those of the first n pending indexes whose delay has passed, and the shortest rest of a delay. An index
// that is delayed keeps its place: it is not the turn of others until then.
func (t *tally) ofIndexes(n int, now time.Time) (create []NewPod, rest time.Duration) {
	for _, i := range t.pending(n) {
		last := t.last[i]
		if last == nil {
			create = append(create, NewPod{Index: i})
			continue
		}
		if w := wait(failuresBefore(last)+1, ended(last), now); w > 0 {
			rest = sooner(rest, w)
			continue
		}
		next := NewPod{i, annotated(last, batchv1.JobIndexFailureCountAnnotation), annotated(last, batchv1.JobIndexIgnoredFailureCountAnnotation)}
		if judge(t.job, last).counts() {
			next.Failures++
		} else {
			next.Ignored++
		}
		create = append(create, next)
	}
	return create, rest
}

// surplus returns the active pods that must go for no more than want to stay: first those of an index that has another pod or that the
// job has not, then those that have come least far.
func (t *tally) surplus(want int) []*corev1.Pod {
	ranked := slices.Clone(t.active)
	slices.SortStableFunc(ranked, leastFar)
	var extra, rest []*corev1.Pod
	taken := map[int]bool{}
	for _, p := range slices.Backward(ranked) {
		if i := indexOf(p); indexed(t.job) && (taken[i] || !t.valid(p)) {
			extra = append(extra, p)
		} else {
			taken[i], rest = true, append(rest, p)
		}
	}
	slices.Reverse(rest)
	if n := len(rest) - want; n > 0 {
		extra = append(extra, rest[:n]...)
	}
	if !suspended(t.job) {
		extra = extra[:min(len(extra), mostWrites)]
	}
	return extra
}

// leastFar sorts pods by how far they have come: without a node, pending, not ready, ready for less long, more often restarted, younger.
func leastFar(a, b *corev1.Pod) int {
	younger := func(x, y time.Time) int {
		switch {
		case x.Equal(y):
			return 0
		case x.IsZero() || x.After(y) && !y.IsZero():
			return -1
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(min(1, len(a.Spec.NodeName)), min(1, len(b.Spec.NodeName))),
		cmp.Compare(phaseOrder(a), phaseOrder(b)),
		cmp.Compare(*ready([]*corev1.Pod{a}), *ready([]*corev1.Pod{b})),
		younger(readySince(a), readySince(b)),
		cmp.Compare(restarts(b), restarts(a)),
		younger(a.CreationTimestamp.Time, b.CreationTimestamp.Time),
	)
}

func phaseOrder(p *corev1.Pod) int {
	switch p.Status.Phase {
	case corev1.PodRunning:
		return 2
	case corev1.PodUnknown:
		return 1
	}
	return 0
}

func readySince(p *corev1.Pod) time.Time {
	if !pod.Ready(p) {
		return time.Time{}
	}
	return pod.Condition(p, corev1.PodReady).LastTransitionTime.Time
}

func restarts(p *corev1.Pod) (most int32) {
	for _, c := range p.Status.ContainerStatuses {
		most = max(most, c.RestartCount)
	}
	return most
}

// suspend tells whether the job is suspended. Its time begins anew when it is resumed.
func (p *Plan) suspend(job *batchv1.Job, now time.Time) {
	if suspended(job) {
		if set(&p.Status, batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended", now) {
			p.Status.StartTime = nil
			p.Events = append(p.Events, Event{corev1.EventTypeNormal, "Suspended", "Job suspended"})
		}
		return
	}
	if set(&p.Status, batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed", now) {
		p.Status.StartTime = &metav1.Time{Time: now}
		p.Events = append(p.Events, Event{corev1.EventTypeNormal, "Resumed", "Job resumed"})
	}
}

// conclude tells the verdict and, when no pod is left to end or to be counted, closes the job.
func (p *Plan) conclude(t *tally, v *verdict, settled bool, now time.Time) {
	s := &p.Status
	if had := condition(t.job, v.interim()); !isTrue(had) {
		set(s, v.interim(), corev1.ConditionTrue, v.reason, v.message, now)
	}
	if !settled || len(t.active)+len(t.terminating)+len(s.UncountedTerminatedPods.Succeeded)+len(s.UncountedTerminatedPods.Failed) > 0 ||
		slices.ContainsFunc(t.pods, tracked) {
		return
	}
	p.After = 0
	set(s, v.final(), corev1.ConditionTrue, v.reason, v.message, now)
	if empty := t.job.Spec.Completions != nil && t.completions() == 0; s.StartTime == nil && !empty { // it was suspended
		s.StartTime = &metav1.Time{Time: now}
	}
	if !v.success {
		p.Events = append(p.Events, Event{corev1.EventTypeWarning, v.reason, v.message})
		return
	}
	s.CompletionTime = &metav1.Time{Time: now}
	if wanted := t.job.Spec.Completions; wanted != nil && s.Succeeded > *wanted {
		p.Events = append(p.Events, Event{corev1.EventTypeWarning, "TooManySucceededPods", "Too many succeeded pods running after completion count reached"})
	}
	p.Events = append(p.Events, Event{corev1.EventTypeNormal, "Completed", "Job completed"})
}

// Removed returns the plan's status as it is when the pods that had to go are on their way.
func (p *Plan) Removed() batchv1.JobStatus {
	s, gone := p.Status, slices.Concat(p.Surplus, p.Stop)
	if len(gone) > 0 {
		still, leaving := deref(s.Ready)-*ready(gone), deref(s.Terminating)+int32(len(gone))
		s.Active, s.Ready, s.Terminating = s.Active-int32(len(gone)), &still, &leaving
	}
	return s
}

func ready(pods []*corev1.Pod) *int32 {
	var n int32
	for _, p := range pods {
		if pod.Ready(p) {
			n++
		}
	}
	return &n
}

// sooner returns the shorter of two waits; 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
