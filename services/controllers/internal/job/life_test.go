package job

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// world is an API with one job and its pods, which end at random. Leaders end at random, too, between any two writes.
type world struct {
	*testing.T
	rng      *rand.Rand
	job      *batchv1.Job
	pods     map[string]*corev1.Pod
	made     int
	now      time.Time
	memory   Failures
	fails    float64 // share of the pods that fail
	ends     map[corev1.PodPhase]int
	perIndex map[int]int // successes
}

// crashes says whether the leader ends here, with all that it remembers.
func (w *world) crashes() bool {
	if w.rng.IntN(12) > 0 {
		return false
	}
	w.memory = Failures{}
	return true
}

func (w *world) view() (pods []*corev1.Pod) {
	for _, p := range w.pods {
		pods = append(pods, p.DeepCopy())
	}
	return pods
}

// lead carries out one plan, or the beginning of it.
func (w *world) lead() {
	pods := w.view()
	w.memory.See(w.job, pods)
	selector, _ := metav1.LabelSelectorAsSelector(w.job.Spec.Selector)
	plan := Decide(w.job, selector, Observed{Pods: pods, Settled: true, Wait: w.memory.Wait(w.now)}, w.now)
	for _, p := range plan.Surplus {
		w.untrack(p)
		if w.crashes() {
			return
		}
		w.delete(p)
	}
	for _, p := range plan.Stop {
		w.delete(p)
		if w.crashes() {
			return
		}
	}
	podOf := podsOf(w.job)
	for _, n := range plan.Create {
		w.made++
		p := podOf(n, fmt.Sprintf("p%04d", w.made))
		p.UID, p.CreationTimestamp, p.Status.Phase = types.UID(p.Name), metav1.NewTime(w.now), corev1.PodPending
		w.pods[p.Name] = p
		if w.crashes() {
			return
		}
	}
	w.store(plan.Removed())
	if w.crashes() {
		return
	}
	for _, p := range plan.Counted {
		w.untrack(p)
		if w.crashes() {
			return
		}
	}
}

// store checks what no status may do.
func (w *world) store(s batchv1.JobStatus) {
	was := w.job.Status
	if s.Succeeded < was.Succeeded || s.Failed < was.Failed || s.Active < 0 || deref(s.Ready) > s.Active || deref(s.Terminating) < 0 {
		w.Fatalf("status %+v after %+v", s, was)
	}
	if noted := deref(s.UncountedTerminatedPods); int(s.Succeeded)+len(noted.Succeeded) > w.ends[corev1.PodSucceeded] {
		w.Fatalf("%d successes are counted, %v noted, of %d", s.Succeeded, noted.Succeeded, w.ends[corev1.PodSucceeded])
	}
	w.job.Status = *s.DeepCopy()
}

func (w *world) untrack(seen *corev1.Pod) {
	if p := w.pods[seen.Name]; p != nil {
		p.Finalizers = nil
	}
}

func (w *world) delete(seen *corev1.Pod) {
	if p := w.pods[seen.Name]; p != nil && p.DeletionTimestamp == nil {
		p.DeletionTimestamp = &metav1.Time{Time: w.now}
	}
}

// live lets time pass: pods run, end, and go when they are deleted and may.
func (w *world) live() {
	w.now = w.now.Add(time.Duration(w.rng.IntN(20)) * time.Second)
	for name, p := range w.pods {
		if p.DeletionTimestamp != nil {
			if len(p.Finalizers) == 0 {
				delete(w.pods, name)
			}
			continue
		}
		switch {
		case w.rng.IntN(3) > 0:
		case p.Status.Phase == corev1.PodPending:
			p.Status.Phase = corev1.PodRunning
			isReady(p)
		case p.Status.Phase == corev1.PodRunning:
			phase := corev1.PodSucceeded
			if w.rng.Float64() < w.fails {
				phase = corev1.PodFailed
			}
			p.Status.Phase = phase
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(w.now)}}
			if tracked(p) {
				w.ends[phase]++
				if phase == corev1.PodSucceeded {
					w.perIndex[indexOf(p)]++
				}
			}
		}
	}
	active := 0
	for _, p := range w.pods {
		if p.DeletionTimestamp == nil && (p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodPending) {
			active++
		}
	}
	if most := int(*w.job.Spec.Parallelism); active > most {
		w.Fatalf("%d pods are active, at most %d may be", active, most)
	}
}

// TestNothingIsLostOrCountedTwice: whatever ends when, a job comes to its end, and its counters are what there was.
func TestNothingIsLostOrCountedTwice(t *testing.T) {
	t.Parallel()
	const want = 17
	for name, c := range map[string]struct {
		change func(*batchv1.Job)
		fails  float64
		told   string
	}{
		"NonIndexed":           {func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](1000) }, 0.2, completed},
		"Indexed":              {func(j *batchv1.Job) { indexedMode(j); j.Spec.BackoffLimit = ptr.To[int32](1000) }, 0.2, completed},
		"backoffLimit":         {func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](3) }, 0.9, "FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)"},
		"backoffLimitPerIndex": {perIndex(1000), 0.3, completed},
		"some indexes fail":    {perIndex(1), 0.7, "FailureTarget(FailedIndexes) Failed(FailedIndexes)"},
		"podReplacementPolicy": {func(j *batchv1.Job) {
			j.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
			j.Spec.BackoffLimit = ptr.To[int32](1000)
		}, 0.3, completed},
		"successPolicy": {func(j *batchv1.Job) {
			indexedMode(j)
			j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: ptr.To[int32](5)}}}
		}, 0, "SuccessCriteriaMet(SuccessPolicy) Complete(SuccessPolicy)"},
		"suspended now and then":   {func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](1000) }, 0, completed},
		"no number of completions": {func(j *batchv1.Job) { j.Spec.Completions = nil }, 0, completed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(30) {
				w := &world{T: t, rng: rand.New(rand.NewPCG(seed, 1)), now: start, pods: map[string]*corev1.Pod{}, fails: c.fails,
					ends: map[corev1.PodPhase]int{}, perIndex: map[int]int{}}
				w.job = newJob(func(j *batchv1.Job) {
					j.Spec.Completions, j.Spec.Parallelism, j.Status = ptr.To[int32](want), ptr.To[int32](5), batchv1.JobStatus{}
				}, c.change)
				for step := 0; !Finished(w.job); step++ {
					if step > 20_000 {
						t.Fatalf("seed %d: no end: %+v", seed, w.job.Status)
					}
					if name == "suspended now and then" && step%20 == 0 {
						w.job.Spec.Suspend = ptr.To(step%40 == 20)
					}
					w.lead()
					w.live()
				}
				w.conclude(seed, c.told)
			}
		})
	}
}

// conclude checks what a finished job tells.
func (w *world) conclude(seed uint64, told string) {
	s := w.job.Status
	if got := toldBy(s); got != told {
		w.Errorf("seed %d: conditions %s, want %s", seed, got, told)
	}
	succeeded := w.ends[corev1.PodSucceeded]
	if indexed(w.job) {
		for i, n := range w.perIndex {
			if n != 1 || !ParseIndexes(s.CompletedIndexes, 1000).Has(i) {
				w.Errorf("seed %d: index %d succeeded %d times, told are %s", seed, i, n, s.CompletedIndexes)
			}
		}
		succeeded = len(w.perIndex)
	}
	if int(s.Succeeded) != succeeded {
		w.Errorf("seed %d: %d succeeded, told are %d", seed, succeeded, s.Succeeded)
	}
	if wanted := w.job.Spec.Completions; wanted != nil && told == completed && s.Succeeded != *wanted {
		w.Errorf("seed %d: %d succeeded of %d", seed, s.Succeeded, *wanted)
	}
	if stopped := isTrue(condition(w.job, batchv1.JobFailed)); !stopped && int(s.Failed) != w.ends[corev1.PodFailed] || int(s.Failed) < w.ends[corev1.PodFailed] {
		w.Errorf("seed %d: %d failed, told are %d", seed, w.ends[corev1.PodFailed], s.Failed)
	}
	for _, p := range w.pods {
		if tracked(p) {
			w.Errorf("seed %d: pod %s has the finalizer still", seed, p.Name)
		}
	}
}
