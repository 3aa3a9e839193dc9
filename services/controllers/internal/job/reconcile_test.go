package job

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

func run(t *testing.T, prepare func(*controllertest.Cluster)) *controllertest.Cluster {
	t.Helper()
	return controllertest.Start(t, clock.RealClock{}, prepare, func(env *controller.Env) (controller.Unit, error) { return New(env, nil), nil })
}

// freshJob is a job as a client sends it, with what the API would add.
func freshJob(change ...func(*batchv1.Job)) *batchv1.Job {
	job := newJob(change...)
	job.UID, job.Status = "", batchv1.JobStatus{}
	return job
}

// kubelet gives pods the phase that next says, once; "" leaves a pod as it is.
func kubelet(c *controllertest.Cluster, next func(p *corev1.Pod) corev1.PodPhase) {
	informers := object.NewInformers(c.Client)
	object.InformerFor(informers, object.Pod).AddHandler(func(_, p *corev1.Pod) {
		if p == nil || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			return
		}
		phase := next(p)
		if phase == "" || phase == p.Status.Phase {
			return
		}
		p = p.DeepCopy()
		p.Status.Phase, p.ResourceVersion = phase, ""
		_, _ = object.For(c.Client, object.Pod).UpdateStatus(context.Background(), p)
	})
	c.Go(informers.Run)
}

func isTold(jobs []*batchv1.Job, conditions string) bool {
	return len(jobs) == 1 && toldBy(jobs[0].Status) == conditions
}

const completed = "SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)"

// TestEachEndIsCountedOnce: while writes fail at random, a job makes as many pods as it needs, none twice, and its counters are true.
func TestEachEndIsCountedOnce(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]func(*batchv1.Job){"NonIndexed": func(*batchv1.Job) {}, "Indexed": indexedMode} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const want = 28
			var (
				mu      sync.Mutex
				created int
				rng     = rand.New(rand.NewPCG(1, 1))
			)
			c := run(t, func(c *controllertest.Cluster) {
				c.API.Intercept = func(w objecttest.Write) error {
					mu.Lock()
					defer mu.Unlock()
					kubelets := w.Resource == "pods" && w.Subresource == "status"
					if !kubelets && w.Resource != "namespaces" && w.Name != "x" && rng.IntN(5) == 0 || w.Subresource == "status" && w.Name == "x" && rng.IntN(5) == 0 {
						return apierrors.NewInternalError(errors.New("try again"))
					}
					if w.Verb == "create" && w.Resource == "pods" {
						created++
					}
					return nil
				}
			})
			kubelet(c, func(*corev1.Pod) corev1.PodPhase { return corev1.PodSucceeded })
			controllertest.Create(c, object.Job, freshJob(mode, func(j *batchv1.Job) {
				j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](want), ptr.To[int32](7)
			}))
			jobs := controllertest.Await(c, object.Job, "a complete job", func(jobs []*batchv1.Job) bool { return isTold(jobs, completed) })
			s := jobs[0].Status
			if s.Succeeded != want || s.Failed != 0 || s.Active != 0 || s.CompletionTime == nil || s.StartTime == nil {
				t.Errorf("status %+v", s)
			}
			if name == "Indexed" && s.CompletedIndexes != "0-27" {
				t.Errorf("indexes %q", s.CompletedIndexes)
			}
			mu.Lock()
			made := created
			mu.Unlock() // a write that is intercepted waits for it, and holds up the list below
			if made != want {
				t.Errorf("%d pods were created, want %d", made, want)
			}
			for _, p := range controllertest.List(c, object.Pod) {
				if tracked(p) {
					t.Errorf("pod %s has the finalizer still", p.Name)
				}
			}
		})
	}
}

func TestPodsOfAnIndexedJob(t *testing.T) {
	t.Parallel()
	c := run(t, nil)
	controllertest.Create(c, object.Job, freshJob(indexedMode))
	pods := controllertest.Await(c, object.Pod, "2 pods", func(pods []*corev1.Pod) bool { return len(pods) == 2 })
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for i, p := range pods {
		index := fmt.Sprint(i)
		env := p.Spec.Containers[0].Env
		if !strings.HasPrefix(p.Name, "x-"+index+"-") || len(p.Name) != 9 || p.Spec.Hostname != "x-"+index ||
			p.Labels[batchv1.JobCompletionIndexAnnotation] != index || p.Annotations[batchv1.JobCompletionIndexAnnotation] != index ||
			len(env) != 1 || env[0].Name != "JOB_COMPLETION_INDEX" ||
			env[0].ValueFrom.FieldRef.FieldPath != "metadata.labels['batch.kubernetes.io/job-completion-index']" || !tracked(p) {
			t.Errorf("pod %+v", p)
		}
	}
	jobs := controllertest.Await(c, object.Job, "2 active pods", func(jobs []*batchv1.Job) bool { return jobs[0].Status.Active == 2 })
	if jobs[0].Status.StartTime == nil || jobs[0].Status.UncountedTerminatedPods == nil {
		t.Errorf("status %+v", jobs[0].Status)
	}
	if e := <-c.Events.Events; !strings.HasPrefix(e, "Normal SuccessfulCreate Created pod: x-") {
		t.Errorf("event %q", e)
	}
}

func TestLongNamesOfPods(t *testing.T) {
	t.Parallel()
	job := newJob(func(j *batchv1.Job) { j.Name = strings.Repeat("n", 63) })
	if p := prefix(job, 12345); len(p) != object.LongestPrefix || !strings.HasSuffix(p, "n-12345-") {
		t.Errorf("prefix %q", p)
	}
}

func TestFailedJobEndsItsPods(t *testing.T) {
	t.Parallel()
	c := run(t, nil)
	first := true
	kubelet(c, func(p *corev1.Pod) corev1.PodPhase {
		if first {
			first = false
			return corev1.PodFailed
		}
		return corev1.PodRunning
	})
	controllertest.Create(c, object.Job, freshJob(func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](0) }))
	jobs := controllertest.Await(c, object.Job, "a failed job", func(jobs []*batchv1.Job) bool {
		return isTold(jobs, "FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)")
	})
	if s := jobs[0].Status; s.Failed != 2 || s.Active != 0 || *s.Terminating != 0 || s.CompletionTime != nil {
		t.Errorf("status %+v", s)
	}
	if pods := controllertest.List(c, object.Pod); len(pods) != 1 || pods[0].Status.Phase != corev1.PodFailed || tracked(pods[0]) {
		t.Errorf("%d pods are left", len(pods))
	}
	awaitEvent(c, "Warning BackoffLimitExceeded Job has reached the specified backoff limit")
}

// awaitEvent reads events up to one.
func awaitEvent(c *controllertest.Cluster, want string) {
	c.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case e := <-c.Events.Events:
			if e == want {
				return
			}
		case <-late:
			c.Fatalf("no event %q", want)
		}
	}
}

func TestSuspendAndResume(t *testing.T) {
	t.Parallel()
	c := run(t, nil)
	controllertest.Create(c, object.Job, freshJob())
	controllertest.Await(c, object.Job, "2 active pods", func(jobs []*batchv1.Job) bool { return jobs[0].Status.Active == 2 })
	patch := func(suspend bool) {
		body := fmt.Sprintf(`{"spec":{"suspend":%v}}`, suspend)
		if _, err := object.For(c.Client, object.Job).Patch(t.Context(), "default", "x", "application/merge-patch+json", []byte(body), ""); err != nil {
			t.Fatal(err)
		}
	}
	patch(true)
	jobs := controllertest.Await(c, object.Job, "a suspended job", func(jobs []*batchv1.Job) bool {
		return isTold(jobs, "Suspended(JobSuspended)") && jobs[0].Status.Active == 0 && *jobs[0].Status.Terminating == 0
	})
	if s := jobs[0].Status; s.StartTime != nil || s.Failed != 0 {
		t.Errorf("status %+v", s)
	}
	controllertest.Gone(c, object.Pod)
	patch(false)
	jobs = controllertest.Await(c, object.Job, "2 active pods", func(jobs []*batchv1.Job) bool { return jobs[0].Status.Active == 2 })
	if s := jobs[0].Status; s.StartTime == nil || len(s.Conditions) != 1 || s.Conditions[0].Reason != "JobResumed" {
		t.Errorf("status %+v", s)
	}
	awaitEvent(c, "Normal Suspended Job suspended")
	awaitEvent(c, "Normal Resumed Job resumed")
}

func TestAdoptAndRelease(t *testing.T) {
	t.Parallel()
	c := run(t, nil)
	job := controllertest.Create(c, object.Job, freshJob())
	pods := controllertest.Await(c, object.Pod, "2 pods", func(pods []*corev1.Pod) bool { return len(pods) == 2 })
	update := func(p *corev1.Pod, patch string) {
		if _, err := object.For(c.Client, object.Pod).Patch(t.Context(), p.Namespace, p.Name, "application/merge-patch+json", []byte(patch), ""); err != nil {
			t.Fatal(err)
		}
	}
	update(pods[0], `{"metadata":{"ownerReferences":null}}`)
	controllertest.Await(c, object.Pod, "the orphan's adoption", func(pods []*corev1.Pod) bool {
		return len(pods) == 2 && !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return !metav1.IsControlledBy(p, job) || !tracked(p) })
	})
	update(pods[0], `{"metadata":{"labels":null}}`)
	controllertest.Await(c, object.Pod, "the pod's release and its replacement", func(now []*corev1.Pod) bool {
		own, free := 0, 0
		for _, p := range now {
			if metav1.IsControlledBy(p, job) {
				own++
			} else if p.Name == pods[0].Name && !tracked(p) {
				free++
			}
		}
		return own == 2 && free == 1
	})
}

func TestPodsAreLetGoWhenTheirJobIsGone(t *testing.T) {
	t.Parallel()
	c := run(t, nil)
	controllertest.Create(c, object.Job, freshJob())
	controllertest.Await(c, object.Pod, "2 pods", func(pods []*corev1.Pod) bool { return len(pods) == 2 })
	controllertest.Delete(c, object.Job, "default", "x", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
	controllertest.Await(c, object.Pod, "2 pods without finalizer", func(pods []*corev1.Pod) bool {
		return len(pods) == 2 && !slices.ContainsFunc(pods, tracked)
	})
}

func TestJobsOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	c := run(t, nil)
	other := freshJob(func(j *batchv1.Job) { j.Name, j.Spec.ManagedBy = "other", ptr.To("example.com/queue") })
	controllertest.Create(c, object.Job, other)
	own := freshJob(func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To(batchv1.JobControllerName) })
	controllertest.Create(c, object.Job, own)
	controllertest.Await(c, object.Job, "2 active pods", func(jobs []*batchv1.Job) bool {
		return slices.ContainsFunc(jobs, func(j *batchv1.Job) bool { return j.Status.Active == 2 })
	})
	for _, j := range controllertest.List(c, object.Job) {
		if j.Name == "other" && (j.Status.StartTime != nil || j.Status.Active != 0) {
			t.Errorf("status %+v", j.Status)
		}
	}
}

// TestRefusedTemplateIsTriedGently: a template that admission refuses costs a few creations, and the job counts no pods.
func TestRefusedTemplateIsTriedGently(t *testing.T) {
	t.Parallel()
	c := run(t, func(c *controllertest.Cluster) {
		c.API.Intercept = func(w objecttest.Write) error {
			if w.Verb == "create" && w.Resource == "pods" {
				return apierrors.NewForbidden(corev1.Resource("pods"), w.Name, errors.New("exceeded quota"))
			}
			return nil
		}
	})
	controllertest.Create(c, object.Job, freshJob(func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](500), ptr.To[int32](500) }))
	jobs := controllertest.Await(c, object.Job, "a started job", func(jobs []*batchv1.Job) bool { return jobs[0].Status.StartTime != nil })
	if jobs[0].Status.Active != 0 {
		t.Errorf("status %+v", jobs[0].Status)
	}
	if e := <-c.Events.Events; !strings.HasPrefix(e, "Warning FailedCreate Error creating: pods ") {
		t.Errorf("event %q", e)
	}
	if n := c.API.Calls("create pods"); n > 100 {
		t.Errorf("%d creations were tried, want few", n)
	}
}

// TestANamespaceThatGoesDoesNotWaitForSuccessors: its pods go before its jobs, and those that wait for a new pod of their index would wait for ever.
func TestANamespaceThatGoesDoesNotWaitForSuccessors(t *testing.T) {
	t.Parallel()
	var going atomic.Bool
	c := run(t, func(c *controllertest.Cluster) {
		c.API.Intercept = func(w objecttest.Write) error {
			if !going.Load() || w.Verb != "create" || w.Resource != "pods" {
				return nil
			}
			refusal := apierrors.NewForbidden(corev1.Resource("pods"), w.Name, errors.New("the namespace is being terminated"))
			refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
			return refusal
		}
	})
	controllertest.Create(c, object.Job, freshJob(perIndex(3)))
	pods := controllertest.Await(c, object.Pod, "the first pods", func(pods []*corev1.Pod) bool { return len(pods) == 2 })
	going.Store(true)
	for _, p := range pods {
		p = p.DeepCopy()
		exit(1)(p)
		p.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(time.Now().Add(-time.Minute)) // no delay is left
		controllertest.UpdateStatus(c, object.Pod, p)
		controllertest.Delete(c, object.Pod, p.Namespace, p.Name, metav1.DeleteOptions{})
	}
	controllertest.Gone(c, object.Pod)
}
