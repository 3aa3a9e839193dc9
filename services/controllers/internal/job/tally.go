package job

import (
	"cmp"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/services/controllers/internal/pod"
)

// tally is what a job's pods and its status come to together. While a pod has the finalizer it is counted from the pod, or from the
// status where that has noted its uid (uncountedTerminatedPods) or its index (completedIndexes); from then on from the status alone.
type tally struct {
	job         *batchv1.Job
	pods        []*corev1.Pod // by index and name
	active      []*corev1.Pod
	terminating []*corev1.Pod // on their way out, but not yet ended

	succeeded, failed int32   // with those that the status is yet to count
	before, done      Indexes // succeeded indexes, as the status has them and with what the pods add
	lost              Indexes // failed indexes
	// last is the failed pod of each index that waits for a new one. It keeps its finalizer until then: from it the new pod learns how
	// often the index has failed.
	last map[int]*corev1.Pod
	// judged counts the failures that a rule of the pod failure policy decides about now, by its action.
	judged map[batchv1.PodFailurePolicyAction]int
}

// count makes the tally of a job's own pods.
func count(job *batchv1.Job, own []*corev1.Pod) *tally {
	t := &tally{job: job, pods: slices.Clone(own), last: map[int]*corev1.Pod{}, judged: map[batchv1.PodFailurePolicyAction]int{}}
	slices.SortFunc(t.pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(indexOf(a), indexOf(b)), cmp.Compare(a.Name, b.Name))
	})
	for _, p := range t.pods {
		if pod.Active(p) {
			t.active = append(t.active, p)
		}
		if pod.Terminating(p) {
			t.terminating = append(t.terminating, p)
		}
	}
	t.countEnds()
	if indexed(job) {
		t.countIndexes()
	}
	return t
}

// countEnds adds the pods that the status has not taken note of to its counters.
func (t *tally) countEnds() {
	noted := deref(t.job.Status.UncountedTerminatedPods)
	t.succeeded = t.job.Status.Succeeded + int32(len(noted.Succeeded))
	t.failed = t.job.Status.Failed + int32(len(noted.Failed))
	for _, p := range t.pods {
		switch {
		case !tracked(p) || !t.valid(p) || has(noted, p):
		case p.Status.Phase == corev1.PodSucceeded:
			t.succeeded++
		case failed(t.job, p) && judge(t.job, p).counts():
			t.failed++
		}
	}
}

// countIndexes finds the indexes that have come to an end, and the last failed pods of the others.
func (t *tally) countIndexes() {
	status, completions := &t.job.Status, t.completions()
	t.before = ParseIndexes(status.CompletedIndexes, completions)
	t.lost = ParseIndexes(deref(status.FailedIndexes), completions)
	var done, lost []int
	for _, p := range t.pods {
		switch {
		case !tracked(p) || !t.valid(p) || t.stopped(p) || t.lost.Has(indexOf(p)): // an index comes to one end only
		case p.Status.Phase == corev1.PodSucceeded:
			done = append(done, indexOf(p))
		case t.losesIndex(p):
			lost = append(lost, indexOf(p))
		}
	}
	t.done = t.before.With(done...)
	t.succeeded = int32(t.done.Len())
	if t.job.Spec.BackoffLimitPerIndex == nil {
		return
	}
	t.lost = t.lost.With(slices.DeleteFunc(lost, t.done.Has)...)
	over := t.done.Union(t.lost).Union(indexesOf(t.active))
	for _, p := range t.pods {
		if i := indexOf(p); tracked(p) && t.valid(p) && failed(t.job, p) && !over.Has(i) && follows(p, t.last[i]) {
			t.last[i] = p
		}
	}
}

// losesIndex says whether a failed pod is the last that its index may have.
func (t *tally) losesIndex(p *corev1.Pod) bool {
	limit := t.job.Spec.BackoffLimitPerIndex
	if limit == nil || !failed(t.job, p) {
		return false
	}
	r := judge(t.job, p)
	return r.action == batchv1.PodFailurePolicyActionFailIndex ||
		r.counts() && annotated(p, batchv1.JobIndexFailureCountAnnotation) >= *limit
}

// follows says whether p was made after the other pod of its index, if there is one.
func follows(p, other *corev1.Pod) bool {
	return other == nil || failuresBefore(p) >= failuresBefore(other) && !ended(p).Before(ended(other))
}

// failuresBefore counts the pods of its index that failed before p was made.
func failuresBefore(p *corev1.Pod) int {
	return int(annotated(p, batchv1.JobIndexFailureCountAnnotation)) + int(annotated(p, batchv1.JobIndexIgnoredFailureCountAnnotation))
}

// annotated is the count that an annotation tells; what is no count there is 0.
func annotated(p *corev1.Pod, name string) int32 {
	n, err := strconv.ParseInt(p.Annotations[name], 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int32(n)
}

func (t *tally) completions() int { return int(deref(t.job.Spec.Completions)) }

// valid says whether a pod can count: one of an indexed job only with an index of the job's.
func (t *tally) valid(p *corev1.Pod) bool {
	if !indexed(t.job) {
		return true
	}
	i := indexOf(p)
	return i != none && i < t.completions()
}

func indexed(job *batchv1.Job) bool {
	return deref(job.Spec.CompletionMode) == batchv1.IndexedCompletion
}

func suspended(job *batchv1.Job) bool { return deref(job.Spec.Suspend) }

// onlyFailed says whether a pod is replaced when it has failed, and not already when its deletion has begun.
func onlyFailed(job *batchv1.Job) bool {
	return deref(job.Spec.PodReplacementPolicy) == batchv1.Failed || job.Spec.PodFailurePolicy != nil
}

// failed says whether a pod is a failure of its job. Unless only failed pods are replaced, one that is being deleted is: it may be on a
// node that is gone and never come to an end.
func failed(job *batchv1.Job, p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil && p.Status.Phase != corev1.PodSucceeded && !onlyFailed(job)
}

// stopped says whether it was for the verdict of its job that a pod was deleted. Whatever it ends with says nothing about its index, nor
// does a rule judge it: it is a failure of a job that has failed, and of one that has succeeded nothing.
func (t *tally) stopped(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil &&
		(isTrue(condition(t.job, batchv1.JobFailureTarget)) || isTrue(condition(t.job, batchv1.JobSuccessCriteriaMet)))
}

// tracked says whether a pod's end may still have to be counted.
func tracked(p *corev1.Pod) bool { return slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) }

// settle moves the pods that have lost their finalizer from the list of those that are yet to be counted into the counters.
func (t *tally) settle(status *batchv1.JobStatus) {
	still := map[types.UID]bool{}
	for _, p := range t.pods {
		if tracked(p) {
			still[p.UID] = true
		}
	}
	noted := status.UncountedTerminatedPods
	move := func(uids *[]types.UID, counter *int32) {
		had := len(*uids)
		*uids = slices.DeleteFunc(*uids, func(uid types.UID) bool { return !still[uid] })
		*counter += int32(had - len(*uids))
	}
	move(&noted.Succeeded, &status.Succeeded)
	move(&noted.Failed, &status.Failed)
}

// note writes the ends that may be counted into the status, at most mostNoted of them, and returns the pods that may lose their
// finalizer once that status is stored.
func (t *tally) note(status *batchv1.JobStatus, v *verdict) (counted []*corev1.Pod) {
	noted := status.UncountedTerminatedPods
	done, room := t.before, max(0, mostNoted-len(noted.Succeeded)-len(noted.Failed))
	for _, p := range t.pods {
		if !tracked(p) || !t.mayGo(p, v) {
			continue
		}
		if has(*noted, p) || !t.valid(p) {
			counted = append(counted, p)
			continue
		}
		if room == 0 {
			continue
		}
		counted = append(counted, p)
		switch {
		case t.stopped(p):
			if !v.success {
				noted.Failed, room = append(noted.Failed, p.UID), room-1
			}
		case p.Status.Phase == corev1.PodSucceeded && indexed(t.job):
			if i := indexOf(p); !done.Has(i) && !t.lost.Has(i) {
				done, room = done.With(i), room-1
			}
		case p.Status.Phase == corev1.PodSucceeded:
			noted.Succeeded, room = append(noted.Succeeded, p.UID), room-1
		case t.isFailure(p, v):
			r := judge(t.job, p)
			if r.matched {
				t.judged[r.action]++
			}
			if r.counts() {
				noted.Failed, room = append(noted.Failed, p.UID), room-1
			}
		}
	}
	t.write(status, done)
	return counted
}

// has says whether a pod's end is among those that are yet to be counted.
func has(noted batchv1.UncountedTerminatedPods, p *corev1.Pod) bool {
	return slices.Contains(noted.Succeeded, p.UID) || slices.Contains(noted.Failed, p.UID)
}

// write tells the indexes that have come to an end.
func (t *tally) write(status *batchv1.JobStatus, done Indexes) {
	if !indexed(t.job) {
		return
	}
	status.CompletedIndexes, status.Succeeded = done.String(), int32(done.Len())
	if t.job.Spec.BackoffLimitPerIndex != nil {
		lost := t.lost.String()
		status.FailedIndexes = &lost
	}
}

// mayGo says whether a pod's end, if it has come to one, may be counted now.
func (t *tally) mayGo(p *corev1.Pod, v *verdict) bool {
	switch {
	case t.job.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded:
		return true
	case v != nil:
		return !pod.Active(p)
	}
	last := t.last[indexOf(p)]
	return failed(t.job, p) && (last == nil || last.UID != p.UID)
}

// isFailure says whether a pod that did not succeed counts as failed. Those that a failed job stops do; those that a job stops because
// it has succeeded without them do not.
func (t *tally) isFailure(p *corev1.Pod, v *verdict) bool {
	switch {
	case v == nil:
		return failed(t.job, p)
	case v.success:
		return p.Status.Phase == corev1.PodFailed && p.DeletionTimestamp == nil
	}
	return !pod.Active(p)
}
