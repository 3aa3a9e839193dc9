package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newJob is a job as the API completes it.
func newJob(change ...func(*batchv1.Job)) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", UID: "job", Generation: 1},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](4), BackoffLimit: ptr.To[int32](6), Suspend: ptr.To(false),
			CompletionMode: ptr.To(batchv1.NonIndexedCompletion), PodReplacementPolicy: ptr.To(batchv1.TerminatingOrFailed),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: "job"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{batchv1.ControllerUidLabel: "job", batchv1.JobNameLabel: "x"}},
				Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
		Status: batchv1.JobStatus{StartTime: &metav1.Time{Time: start}},
	}
	for _, c := range change {
		c(job)
	}
	return job
}

func indexedMode(job *batchv1.Job) { job.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion) }

func perIndex(limit int32) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		indexedMode(job)
		job.Spec.BackoffLimitPerIndex, job.Spec.BackoffLimit = &limit, ptr.To[int32](1<<31-1)
	}
}

// newPod is a pod of the job, running where nothing changes that.
func newPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := podsOf(newJob())(NewPod{Index: none}, name)
	p.UID, p.CreationTimestamp = types.UID("uid-"+name), metav1.NewTime(start)
	p.Status.Phase = corev1.PodRunning
	for _, c := range change {
		c(p)
	}
	return p
}

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func at(index int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: strconv.Itoa(index)}
	}
}

func failuresSoFar(n int) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[batchv1.JobIndexFailureCountAnnotation] = strconv.Itoa(n) }
}

func exit(code int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(start)}}}}
	}
}

func untracked(p *corev1.Pod) { p.Finalizers = nil }

func isReady(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

func leaving(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} }

func decide(job *batchv1.Job, now time.Time, pods ...*corev1.Pod) Plan {
	selector, _ := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	var f Failures
	f.See(job, pods)
	return Decide(job, selector, Observed{Pods: pods, Settled: true, Wait: f.Wait(now)}, now)
}

func names(pods []*corev1.Pod) string {
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func indexesIn(pods []NewPod) string {
	var all []string
	for _, p := range pods {
		all = append(all, strconv.Itoa(p.Index))
	}
	return strings.Join(all, " ")
}

// told lists the true conditions as "Type(Reason)".
func toldBy(s batchv1.JobStatus) string {
	var all []string
	for _, c := range s.Conditions {
		if c.Status == corev1.ConditionTrue {
			all = append(all, fmt.Sprintf("%s(%s)", c.Type, c.Reason))
		}
	}
	return strings.Join(all, " ")
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		job     *batchv1.Job
		pods    []*corev1.Pod
		after   time.Duration // since start
		create  string        // indexes
		surplus string
		stop    string
		counted string
		told    string
		check   func(t *testing.T, p Plan)
	}{
		{name: "a new job", job: newJob(), create: "-1 -1"},
		{name: "no more than is wanted", job: newJob(func(j *batchv1.Job) { j.Status.Succeeded = 3 }), create: "-1"},
		{name: "one pod is enough of two", job: newJob(), pods: []*corev1.Pod{newPod("a")}, create: "-1"},
		{name: "a success is noted, and makes room", job: newJob(), pods: []*corev1.Pod{newPod("a", phase(corev1.PodSucceeded)), newPod("b")},
			create: "-1", counted: "a", check: func(t *testing.T, p Plan) {
				if s := p.Status; fmt.Sprint(s.UncountedTerminatedPods.Succeeded) != "[uid-a]" || s.Succeeded != 0 || s.Active != 1 {
					t.Errorf("status %+v", s)
				}
			}},
		{name: "noted and without finalizer is counted", job: newJob(func(j *batchv1.Job) {
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"uid-a"}, Failed: []types.UID{"uid-gone"}}
		}), pods: []*corev1.Pod{newPod("a", phase(corev1.PodSucceeded), untracked), newPod("b"), newPod("c")},
			check: func(t *testing.T, p Plan) {
				if s := p.Status; s.Succeeded != 1 || s.Failed != 1 || len(s.UncountedTerminatedPods.Succeeded)+len(s.UncountedTerminatedPods.Failed) != 0 {
					t.Errorf("status %+v", s)
				}
			}},
		{name: "the last success ends the job, first for those to come", job: newJob(func(j *batchv1.Job) { j.Status.Succeeded = 3 }),
			pods: []*corev1.Pod{newPod("a", phase(corev1.PodSucceeded))}, counted: "a", told: "SuccessCriteriaMet(CompletionsReached)"},
		{name: "and then for good", job: newJob(func(j *batchv1.Job) { j.Status.Succeeded = 4 }), pods: []*corev1.Pod{newPod("a", phase(corev1.PodSucceeded), untracked)},
			told: "SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)", check: func(t *testing.T, p Plan) {
				if p.Status.CompletionTime == nil || fmt.Sprint(p.Events) != "[{Normal Completed Job completed}]" {
					t.Errorf("%v %v", p.Status.CompletionTime, p.Events)
				}
			}},
		{name: "without a number of completions a success begins nothing new", job: newJob(func(j *batchv1.Job) { j.Spec.Completions = nil; j.Spec.Parallelism = ptr.To[int32](3) }),
			pods: []*corev1.Pod{newPod("a", phase(corev1.PodSucceeded)), newPod("b")}, counted: "a"},
		{name: "and ends the job with the others", job: newJob(func(j *batchv1.Job) { j.Spec.Completions = nil; j.Spec.Parallelism = ptr.To[int32](3) }),
			pods: []*corev1.Pod{newPod("a", phase(corev1.PodSucceeded)), newPod("b", phase(corev1.PodFailed))}, counted: "a b", told: "SuccessCriteriaMet(CompletionsReached)"},
		{name: "a failure waits", job: newJob(), pods: []*corev1.Pod{newPod("a", exit(1)), newPod("b")}, after: 4 * time.Second, counted: "a",
			check: func(t *testing.T, p Plan) {
				if p.After != 6*time.Second {
					t.Errorf("after %v", p.After)
				}
			}},
		{name: "and then makes room", job: newJob(), pods: []*corev1.Pod{newPod("a", exit(1)), newPod("b")}, after: 10 * time.Second, create: "-1", counted: "a"},
		{name: "too many failures", job: newJob(func(j *batchv1.Job) { j.Status.Failed = 6 }), pods: []*corev1.Pod{newPod("a", exit(1)), newPod("b")},
			stop: "b", counted: "a", told: "FailureTarget(BackoffLimitExceeded)", check: func(t *testing.T, p Plan) {
				if s := p.Removed(); s.Active != 0 || *s.Terminating != 1 {
					t.Errorf("status %+v", s)
				}
			}},
		{name: "restarts in place count", job: newJob(func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }),
			pods: []*corev1.Pod{newPod("a", func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 6}} })},
			stop: "a", told: "FailureTarget(BackoffLimitExceeded)"},
		{name: "the deadline", job: newJob(func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To[int64](10) }), pods: []*corev1.Pod{newPod("a"), newPod("b")},
			after: 10 * time.Second, stop: "a b", told: "FailureTarget(DeadlineExceeded)"},
		{name: "before the deadline", job: newJob(func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To[int64](10) }), pods: []*corev1.Pod{newPod("a"), newPod("b")},
			after: 9 * time.Second, check: func(t *testing.T, p Plan) {
				if p.After != time.Second {
					t.Errorf("after %v", p.After)
				}
			}},
		{name: "what a failed job stopped counts as failed", job: newJob(func(j *batchv1.Job) {
			set(&j.Status, batchv1.JobFailureTarget, corev1.ConditionTrue, "DeadlineExceeded", "late", start)
		}), pods: []*corev1.Pod{newPod("a", leaving)}, counted: "a", told: "FailureTarget(DeadlineExceeded)", check: func(t *testing.T, p Plan) {
			if fmt.Sprint(p.Status.UncountedTerminatedPods.Failed) != "[uid-a]" {
				t.Errorf("status %+v", p.Status)
			}
		}},
		{name: "what is terminating keeps it open", job: newJob(func(j *batchv1.Job) {
			set(&j.Status, batchv1.JobFailureTarget, corev1.ConditionTrue, "DeadlineExceeded", "late", start)
		}), pods: []*corev1.Pod{newPod("a", leaving, untracked)}, told: "FailureTarget(DeadlineExceeded)"},
		{name: "a failed job is closed", job: newJob(func(j *batchv1.Job) {
			set(&j.Status, batchv1.JobFailureTarget, corev1.ConditionTrue, "DeadlineExceeded", "late", start)
		}), told: "FailureTarget(DeadlineExceeded) Failed(DeadlineExceeded)", check: func(t *testing.T, p Plan) {
			if fmt.Sprint(p.Events) != "[{Warning DeadlineExceeded late}]" || p.Status.CompletionTime != nil {
				t.Errorf("events %v", p.Events)
			}
		}},
		{name: "a job is suspended", job: newJob(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }), pods: []*corev1.Pod{newPod("a", isReady), newPod("b")}, surplus: "a b",
			told: "Suspended(JobSuspended)", check: func(t *testing.T, p Plan) {
				if s := p.Removed(); s.StartTime != nil || s.Active != 0 || *s.Ready != 0 || *s.Terminating != 2 || fmt.Sprint(p.Events) != "[{Normal Suspended Job suspended}]" {
					t.Errorf("%+v %v", s, p.Events)
				}
			}},
		{name: "a job is resumed", job: newJob(func(j *batchv1.Job) {
			set(&j.Status, batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended", start)
			j.Status.StartTime = nil
		}), after: time.Hour, create: "-1 -1", check: func(t *testing.T, p Plan) {
			if !p.Status.StartTime.Time.Equal(start.Add(time.Hour)) || fmt.Sprint(p.Events) != "[{Normal Resumed Job resumed}]" ||
				p.Status.Conditions[0].Reason != "JobResumed" || p.Status.Conditions[0].Status != corev1.ConditionFalse {
				t.Errorf("%+v %v", p.Status, p.Events)
			}
		}},
		{name: "a deleted pod is replaced at once but for the delay", job: newJob(), pods: []*corev1.Pod{newPod("a", leaving), newPod("b")}, after: 10 * time.Second,
			create: "-1", counted: "a"},
		{name: "or when it has ended", job: newJob(func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed) }),
			pods: []*corev1.Pod{newPod("a", leaving), newPod("b")}, after: 10 * time.Second},
		{name: "less parallelism", job: newJob(func(j *batchv1.Job) { j.Spec.Parallelism = ptr.To[int32](1) }), pods: []*corev1.Pod{newPod("a"), newPod("b", phase(corev1.PodPending))}, surplus: "b"},
		{name: "indexes", job: newJob(indexedMode), create: "0 1"},
		{name: "further indexes", job: newJob(indexedMode, func(j *batchv1.Job) { j.Status.CompletedIndexes = "0,2" }), pods: []*corev1.Pod{newPod("a", at(1))}, create: "3"},
		{name: "an index succeeds", job: newJob(indexedMode), pods: []*corev1.Pod{newPod("a", at(1), phase(corev1.PodSucceeded)), newPod("b", at(0))}, create: "2", counted: "a",
			check: func(t *testing.T, p Plan) {
				if p.Status.CompletedIndexes != "1" || p.Status.Succeeded != 1 || len(p.Status.UncountedTerminatedPods.Succeeded) != 0 {
					t.Errorf("status %+v", p.Status)
				}
			}},
		{name: "an index twice, and one too high", job: newJob(indexedMode), pods: []*corev1.Pod{newPod("a", at(1)), newPod("b", at(1), phase(corev1.PodPending)), newPod("c", at(4))}, surplus: "b c"},
		{name: "fewer indexes", job: newJob(indexedMode, func(j *batchv1.Job) {
			j.Spec.Parallelism, j.Spec.Completions = ptr.To[int32](2), ptr.To[int32](2)
			j.Status.CompletedIndexes, j.Status.Succeeded = "1,3", 2
		}), pods: []*corev1.Pod{newPod("a", at(0)), newPod("b", at(2))}, surplus: "b", check: func(t *testing.T, p Plan) {
			if p.Status.CompletedIndexes != "1" || p.Status.Succeeded != 1 {
				t.Errorf("status %+v", p.Status)
			}
		}},
		{name: "an index may fail again", job: newJob(perIndex(1)), pods: []*corev1.Pod{newPod("a", at(0), exit(1)), newPod("b", at(1))}, after: 10 * time.Second, create: "0",
			check: func(t *testing.T, p Plan) {
				if p.Create[0].Failures != 1 {
					t.Errorf("create %+v", p.Create)
				}
			}},
		{name: "its place is kept meanwhile", job: newJob(perIndex(1)), pods: []*corev1.Pod{newPod("a", at(0), exit(1)), newPod("b", at(1))}, after: 4 * time.Second},
		{name: "and its pod, until there is another", job: newJob(perIndex(1)), pods: []*corev1.Pod{newPod("a", at(0), exit(1)), newPod("b", at(0), failuresSoFar(1)), newPod("c", at(1))}, counted: "a"},
		{name: "the delay of an index doubles", job: newJob(perIndex(3)), pods: []*corev1.Pod{newPod("a", at(0), exit(1), failuresSoFar(2)), newPod("b", at(1))}, after: 39 * time.Second,
			check: func(t *testing.T, p Plan) {
				if p.After != time.Second {
					t.Errorf("after %v", p.After)
				}
			}},
		{name: "an index fails", job: newJob(perIndex(1)), pods: []*corev1.Pod{newPod("a", at(0), exit(1), failuresSoFar(1)), newPod("b", at(1))}, create: "2", counted: "a",
			check: func(t *testing.T, p Plan) {
				if deref(p.Status.FailedIndexes) != "0" {
					t.Errorf("status %+v", p.Status)
				}
			}},
		{name: "the last index fails", job: newJob(perIndex(0), func(j *batchv1.Job) { j.Status.CompletedIndexes = "1-3" }), pods: []*corev1.Pod{newPod("a", at(0), exit(1))}, counted: "a",
			told: "FailureTarget(FailedIndexes)"},
		{name: "too many indexes fail", job: newJob(perIndex(0), func(j *batchv1.Job) { j.Spec.MaxFailedIndexes = ptr.To[int32](0) }),
			pods: []*corev1.Pod{newPod("a", at(0), exit(1)), newPod("b", at(1))}, counted: "a", stop: "b", told: "FailureTarget(MaxFailedIndexesExceeded)"},
		{name: "success policy", job: newJob(indexedMode, func(j *batchv1.Job) {
			j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0,3")}, {SucceededIndexes: ptr.To("1-3"), SucceededCount: ptr.To[int32](1)}}}
		}), pods: []*corev1.Pod{newPod("a", at(0)), newPod("b", at(1), phase(corev1.PodSucceeded))}, counted: "b", stop: "a", told: "SuccessCriteriaMet(SuccessPolicy)",
			check: func(t *testing.T, p Plan) {
				if p.Status.Conditions[0].Message != "Matched rules at index 1" {
					t.Errorf("conditions %+v", p.Status.Conditions)
				}
			}},
		{name: "what a successful job stopped is no failure", job: newJob(indexedMode, func(j *batchv1.Job) {
			set(&j.Status, batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, "SuccessPolicy", "m", start)
		}), pods: []*corev1.Pod{newPod("a", at(0), leaving)}, counted: "a", told: "SuccessCriteriaMet(SuccessPolicy)", check: func(t *testing.T, p Plan) {
			if len(p.Status.UncountedTerminatedPods.Failed) > 0 {
				t.Errorf("status %+v", p.Status)
			}
		}},
		{name: "what a failed job stopped fails no index, whatever it ends with", job: newJob(perIndex(0), func(j *batchv1.Job) {
			j.Status.FailedIndexes = ptr.To("3")
			set(&j.Status, batchv1.JobFailureTarget, corev1.ConditionTrue, "MaxFailedIndexesExceeded", "m", start)
		}), pods: []*corev1.Pod{newPod("a", at(0), exit(137), leaving), newPod("b", at(1), phase(corev1.PodSucceeded), leaving), newPod("c", at(2), leaving)},
			counted: "a b c", told: "FailureTarget(MaxFailedIndexesExceeded)", check: func(t *testing.T, p Plan) {
				if s := p.Status; *s.FailedIndexes != "3" || s.CompletedIndexes != "" || len(s.UncountedTerminatedPods.Failed) != 3 {
					t.Errorf("status %+v", s)
				}
			}},
		{name: "what a successful job stopped completes no index", job: newJob(indexedMode, func(j *batchv1.Job) {
			j.Status.CompletedIndexes = "1"
			set(&j.Status, batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, "SuccessPolicy", "m", start)
		}), pods: []*corev1.Pod{newPod("a", at(0), phase(corev1.PodSucceeded), leaving)}, counted: "a", told: "SuccessCriteriaMet(SuccessPolicy)", check: func(t *testing.T, p Plan) {
			if s := p.Status; s.CompletedIndexes != "1" || len(s.UncountedTerminatedPods.Failed) != 0 {
				t.Errorf("status %+v", s)
			}
		}},
		{name: "no rule judges what a failed job stopped", job: newJob(func(j *batchv1.Job) {
			j.Spec.PodFailurePolicy = policyJob(batchv1.PodFailurePolicyActionIgnore).Spec.PodFailurePolicy
			set(&j.Status, batchv1.JobFailureTarget, corev1.ConditionTrue, "DeadlineExceeded", "m", start)
		}), pods: []*corev1.Pod{newPod("a", exit(42), leaving)}, counted: "a", told: "FailureTarget(DeadlineExceeded)", check: func(t *testing.T, p Plan) {
			if len(p.Status.UncountedTerminatedPods.Failed) != 1 {
				t.Errorf("status %+v", p.Status)
			}
		}},
		{name: "FailJob", job: policyJob(batchv1.PodFailurePolicyActionFailJob), pods: []*corev1.Pod{newPod("a", exit(42)), newPod("b")}, counted: "a", stop: "b",
			told: "FailureTarget(PodFailurePolicy)", check: func(t *testing.T, p Plan) {
				if m := p.Status.Conditions[0].Message; m != "Container c for pod default/a failed with exit code 42 matching FailJob rule at index 1" {
					t.Errorf("message %q", m)
				}
			}},
		{name: "Ignore", job: policyJob(batchv1.PodFailurePolicyActionFailJob), pods: []*corev1.Pod{newPod("a", exit(1), disrupted)}, counted: "a", create: "-1 -1", after: time.Minute,
			check: func(t *testing.T, p Plan) {
				if len(p.Status.UncountedTerminatedPods.Failed) != 0 {
					t.Error("an ignored pod is counted")
				}
			}},
		{name: "FailIndex", job: func() *batchv1.Job {
			j := policyJob(batchv1.PodFailurePolicyActionFailIndex)
			perIndex(5)(j)
			return j
		}(), pods: []*corev1.Pod{newPod("a", at(0), exit(42))}, counted: "a", create: "1 2", check: func(t *testing.T, p Plan) {
			if deref(p.Status.FailedIndexes) != "0" || len(p.Status.UncountedTerminatedPods.Failed) != 1 {
				t.Errorf("status %+v", p.Status)
			}
		}},
		{name: "a deleted job makes nothing and lets go", job: newJob(func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: start} }),
			pods: []*corev1.Pod{newPod("a"), newPod("b", exit(1))}, counted: "a b", check: func(t *testing.T, p Plan) {
				if len(p.Status.UncountedTerminatedPods.Failed) != 1 {
					t.Errorf("status %+v", p.Status)
				}
			}},
		{name: "no pods at all are wanted", job: newJob(func(j *batchv1.Job) { j.Spec.Completions = ptr.To[int32](0) }), told: "SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := decide(c.job, start.Add(c.after), c.pods...)
			for _, x := range []struct{ what, got, want string }{
				{"create", indexesIn(p.Create), c.create}, {"surplus", names(p.Surplus), c.surplus}, {"stop", names(p.Stop), c.stop},
				{"counted", names(p.Counted), c.counted}, {"conditions", toldBy(p.Status), c.told},
			} {
				if x.got != x.want {
					t.Errorf("%s %q, want %q", x.what, x.got, x.want)
				}
			}
			if c.check != nil {
				c.check(t, p)
			}
		})
	}
}

// policyJob ignores disruptions and acts on exit code 42.
func policyJob(action batchv1.PodFailurePolicyAction) *batchv1.Job {
	return newJob(func(j *batchv1.Job) {
		j.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
		j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
			{Action: batchv1.PodFailurePolicyActionIgnore, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}},
			{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42}}},
		}}
	})
}

func disrupted(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
}

func TestUnsettledMakesNothing(t *testing.T) {
	t.Parallel()
	job := newJob(func(j *batchv1.Job) { j.Status.Active = 2 })
	p := Decide(job, labels.Everything(), Observed{Pods: []*corev1.Pod{newPod("a", phase(corev1.PodSucceeded))}}, start)
	if len(p.Create)+len(p.Surplus)+len(p.Stop) != 0 || names(p.Counted) != "a" || p.Status.Active != 2 {
		t.Errorf("plan %+v", p)
	}
}

func TestAdoptAndReleaseComeFirst(t *testing.T) {
	t.Parallel()
	orphan := newPod("orphan", untracked, func(p *corev1.Pod) { p.OwnerReferences = nil })
	leaver := newPod("leaver", func(p *corev1.Pod) { p.Labels = nil })
	p := decide(newJob(), start, orphan, leaver, newPod("a", exit(1)))
	if names(p.Adopt) != "orphan" || names(p.Release) != "leaver" || len(p.Create)+len(p.Counted) != 0 {
		t.Errorf("plan %+v", p)
	}
}

func TestDelays(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{0: 0, 1: 10 * time.Second, 2: 20 * time.Second, 6: 320 * time.Second, 7: 10 * time.Minute, 99: 10 * time.Minute} {
		if got := wait(failures, start, start); got != want {
			t.Errorf("after %d failures %v, want %v", failures, got, want)
		}
	}
}

// TestNoMoreThanItsLimitOfUncounted: the list of uncounted pods stays short, and what is on it goes on all the same.
func TestNoMoreThanItsLimitOfUncounted(t *testing.T) {
	t.Parallel()
	job := newJob(func(j *batchv1.Job) {
		j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](2000), ptr.To[int32](2000)
	})
	var pods []*corev1.Pod
	for i := range 1200 {
		pods = append(pods, newPod(fmt.Sprintf("p%04d", i), phase(corev1.PodSucceeded)))
	}
	for round, want := range []int{500, 500, 200, 0} {
		p := decide(job, start, pods...)
		job.Status = p.Status
		if len(p.Counted) != want || len(p.Status.UncountedTerminatedPods.Succeeded) != want || len(p.Create) > mostWrites {
			t.Fatalf("round %d: %d counted, %d noted, %d created", round, len(p.Counted), len(p.Status.UncountedTerminatedPods.Succeeded), len(p.Create))
		}
		if again := decide(job, start, pods...); len(again.Counted) != want && round == 0 {
			t.Errorf("the same pods seen again: %d counted", len(again.Counted))
		}
		for _, p := range p.Counted {
			p.Finalizers = nil
		}
	}
	if job.Status.Succeeded != 1200 {
		t.Errorf("%d succeeded", job.Status.Succeeded)
	}
}

// TestLeaving: in a namespace that is about to go the last pod of an index is not kept for a successor, which cannot come.
func TestLeaving(t *testing.T) {
	t.Parallel()
	job := newJob(perIndex(3))
	selector, _ := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	seen := Observed{Pods: []*corev1.Pod{newPod("a", at(0), exit(1), leaving), newPod("b", at(1))}, Settled: true}
	if p := Decide(job, selector, seen, start); len(p.Counted) > 0 {
		t.Errorf("%s are counted before their successors are there", names(p.Counted))
	}
	seen.Leaving = true
	if p := Decide(job, selector, seen, start); names(p.Counted) != "a" || len(p.Create) > 0 {
		t.Errorf("%s are counted, %d created", names(p.Counted), len(p.Create))
	}
}
