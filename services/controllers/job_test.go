package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/leading/leadingtest"
	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

// worker ends pods on their node as next says; those that are being deleted end at once.
func worker(t *testing.T, client *object.Client, next func(p *corev1.Pod) corev1.PodPhase) {
	t.Helper()
	informers := object.NewInformers(client)
	pods := object.For(client, object.Pod)
	object.InformerFor(informers, object.Pod).AddHandler(func(_, p *corev1.Pod) {
		switch {
		case p == nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed:
		case p.DeletionTimestamp != nil:
			_ = pods.Delete(context.Background(), p.Namespace, p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		default:
			if phase := next(p); phase != p.Status.Phase {
				p = p.DeepCopy()
				p.Status.Phase = phase
				_, _ = pods.UpdateStatus(context.Background(), p)
			}
		}
	})
	start(t, informers.Run)
}

func work(name string, change func(*batchv1.JobSpec)) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, NodeName: "node-1", Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}}}}
	change(&job.Spec)
	return job
}

// conditionsOf lists the types of a job's true conditions.
func conditionsOf(jobs []*batchv1.Job, name string) (types string, status batchv1.JobStatus) {
	for _, j := range jobs {
		if j.Name != name {
			continue
		}
		for _, c := range j.Status.Conditions {
			if c.Status == corev1.ConditionTrue {
				types += string(c.Type) + "=" + c.Reason + " "
			}
		}
		return strings.TrimSpace(types), j.Status
	}
	return "", batchv1.JobStatus{}
}

// TestJobsOnTheRealAPI: what validation says of a job's status holds at each step of its life.
func TestJobsOnTheRealAPI(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "job,ttlafterfinished,garbagecollector,serviceaccount")
	await(t, client, object.ServiceAccount, "the default account", func(s []*corev1.ServiceAccount) bool { return in(s, "default", "default") })
	worker(t, client, func(p *corev1.Pod) corev1.PodPhase {
		switch {
		case strings.HasPrefix(p.Name, "bad-") || strings.HasPrefix(p.Name, "half-0-"):
			return corev1.PodFailed
		case strings.HasPrefix(p.Name, "endless-") || strings.HasPrefix(p.Name, "elastic-0-"):
			return corev1.PodRunning
		}
		return corev1.PodSucceeded
	})
	indexed := func(s *batchv1.JobSpec, n int32) {
		s.CompletionMode, s.Completions, s.Parallelism = ptr.To(batchv1.IndexedCompletion), &n, &n
	}
	for name, change := range map[string]func(*batchv1.JobSpec){
		"good":    func(s *batchv1.JobSpec) { s.Completions, s.Parallelism = ptr.To[int32](20), ptr.To[int32](5) },
		"indexed": func(s *batchv1.JobSpec) { indexed(s, 4) },
		"bad":     func(s *batchv1.JobSpec) { s.BackoffLimit = ptr.To[int32](0) },
		"half": func(s *batchv1.JobSpec) {
			indexed(s, 3)
			s.BackoffLimitPerIndex = ptr.To[int32](0)
		},
		"endless": func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](1) },
		"policy": func(s *batchv1.JobSpec) {
			indexed(s, 4)
			s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: ptr.To[int32](2)}}}
		},
		"none":    func(s *batchv1.JobSpec) { s.Completions = ptr.To[int32](0) },
		"brief":   func(s *batchv1.JobSpec) { s.TTLSecondsAfterFinished = ptr.To[int32](0) },
		"elastic": func(s *batchv1.JobSpec) { indexed(s, 3) },
	} {
		create(t, client, object.Job, work(name, change))
	}
	ended := func(name, conditions string) batchv1.JobStatus {
		jobs := await(t, client, object.Job, name+" with "+conditions, func(jobs []*batchv1.Job) bool {
			types, _ := conditionsOf(jobs, name)
			return types == conditions
		})
		_, status := conditionsOf(jobs, name)
		return status
	}
	if s := ended("good", "SuccessCriteriaMet=CompletionsReached Complete=CompletionsReached"); s.Succeeded != 20 || s.Failed != 0 || s.CompletionTime == nil {
		t.Errorf("good: %+v", s)
	}
	if s := ended("indexed", "SuccessCriteriaMet=CompletionsReached Complete=CompletionsReached"); s.CompletedIndexes != "0-3" || s.Succeeded != 4 {
		t.Errorf("indexed: %+v", s)
	}
	if s := ended("bad", "FailureTarget=BackoffLimitExceeded Failed=BackoffLimitExceeded"); s.Failed != 1 || s.Active != 0 {
		t.Errorf("bad: %+v", s)
	}
	if s := ended("half", "FailureTarget=FailedIndexes Failed=FailedIndexes"); *s.FailedIndexes != "0" || s.CompletedIndexes != "1,2" {
		t.Errorf("half: %+v", s)
	}
	if s := ended("endless", "FailureTarget=DeadlineExceeded Failed=DeadlineExceeded"); s.Failed != 1 {
		t.Errorf("endless: %+v", s)
	}
	if s := ended("policy", "SuccessCriteriaMet=SuccessPolicy Complete=SuccessPolicy"); s.Succeeded < 2 {
		t.Errorf("policy: %+v", s)
	}
	ended("none", "SuccessCriteriaMet=CompletionsReached Complete=CompletionsReached")

	await(t, client, object.Job, "the end of the brief job", func(jobs []*batchv1.Job) bool { return !in(jobs, "default", "brief") })
	await(t, client, object.Pod, "the end of its pod", func(pods []*corev1.Pod) bool {
		return !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return strings.HasPrefix(p.Name, "brief-") })
	})

	scale := func(patch string) {
		if _, err := object.For(client, object.Job).Patch(t.Context(), "default", "elastic", "application/merge-patch+json", []byte(patch), ""); err != nil {
			t.Fatal(err)
		}
	}
	await(t, client, object.Job, "2 of 3 indexes", func(jobs []*batchv1.Job) bool {
		_, s := conditionsOf(jobs, "elastic")
		return s.CompletedIndexes == "1,2"
	})
	scale(`{"spec":{"completions":2,"parallelism":2}}`)
	await(t, client, object.Job, "1 of 2 indexes", func(jobs []*batchv1.Job) bool {
		_, s := conditionsOf(jobs, "elastic")
		return s.CompletedIndexes == "1" && s.Succeeded == 1
	})
	scale(`{"spec":{"suspend":true}}`)
	await(t, client, object.Job, "a suspended job", func(jobs []*batchv1.Job) bool {
		types, s := conditionsOf(jobs, "elastic")
		return types == "Suspended=JobSuspended" && s.Active == 0 && s.StartTime == nil && *s.Terminating == 0
	})
	scale(`{"spec":{"suspend":false}}`)
	await(t, client, object.Job, "a resumed job", func(jobs []*batchv1.Job) bool {
		types, s := conditionsOf(jobs, "elastic")
		return types == "" && s.Active == 1 && s.StartTime != nil
	})

	background := metav1.DeletePropagationBackground
	for _, j := range must(object.For(client, object.Job).List(t.Context(), "default", metav1.ListOptions{})) {
		if err := object.For(client, object.Job).Delete(t.Context(), "default", j.Name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
			t.Fatal(err)
		}
	}
	await(t, client, object.Pod, "the end of all pods", func(p []*corev1.Pod) bool { return len(p) == 0 })
}

// TestJobsOverFailovers: leaders change in the midst of a job's writes, and its pods are made and counted as if there had been one.
func TestJobsOverFailovers(t *testing.T) {
	t.Parallel()
	const want = 80
	api, leadership := objecttest.New(), leadingtest.New()
	var writes, created atomic.Int64
	api.Intercept = func(w objecttest.Write) error {
		var epoch int64
		if n, _ := fmt.Sscanf(w.Fence, "controllers/%d", &epoch); n == 1 && epoch < leadership.Epoch() { // as the store does
			return apierrors.NewConflict(schema.GroupResource{Resource: w.Resource}, w.Name, errors.New("the leadership has passed on"))
		}
		if w.Verb == "create" && w.Resource == "pods" {
			created.Add(1)
		}
		if (w.Resource == "jobs" || w.Resource == "pods" && w.Subresource == "") && writes.Add(1)%40 == 0 {
			go leadership.Depose()
		}
		return nil
	}
	client := api.Serve(t)
	create(t, client, object.Namespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	for range 2 {
		s, err := New(Config{
			Objects: api.Serve(t), Leadership: leadership, Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry(), Enabled: "job",
		})
		if err != nil {
			t.Fatal(err)
		}
		start(t, s.Run)
		if !s.Ready(t.Context()) {
			t.Fatal("the caches do not fill")
		}
	}
	worker(t, client, func(*corev1.Pod) corev1.PodPhase { return corev1.PodSucceeded })
	for _, name := range []string{"loose", "indexed"} {
		create(t, client, object.Job, work(name, func(s *batchv1.JobSpec) {
			s.Completions, s.Parallelism, s.BackoffLimit = ptr.To[int32](want), ptr.To[int32](6), ptr.To[int32](0)
			if s.CompletionMode = ptr.To(batchv1.NonIndexedCompletion); name == "indexed" {
				s.CompletionMode = ptr.To(batchv1.IndexedCompletion)
			}
			s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"job": name}}
			s.Template.Labels = s.Selector.MatchLabels
		}))
	}
	jobs := await(t, client, object.Job, "2 complete jobs", func(jobs []*batchv1.Job) bool {
		for _, name := range []string{"loose", "indexed"} {
			if types, _ := conditionsOf(jobs, name); !strings.Contains(types, "Complete=CompletionsReached") {
				return false
			}
		}
		return true
	})
	for _, name := range []string{"loose", "indexed"} {
		if _, s := conditionsOf(jobs, name); s.Succeeded != want || s.Failed != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if n := created.Load(); n != 2*want {
		t.Errorf("%d pods were created, want %d", n, 2*want)
	}
	if n := writes.Load() / 40; n < 5 {
		t.Errorf("%d leaders were deposed, want more", n)
	}
}
