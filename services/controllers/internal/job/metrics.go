package job

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Metrics are Kubernetes' metrics of jobs. A nil one measures nothing.
type Metrics struct {
	seconds  *prometheus.HistogramVec
	syncs    *prometheus.CounterVec
	finished *prometheus.CounterVec
	pods     *prometheus.CounterVec
	indexes  *prometheus.CounterVec
	creation *prometheus.CounterVec
	external *prometheus.CounterVec
	policy   *prometheus.CounterVec
	terminal *prometheus.CounterVec
	skipped  *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "job_controller", Name: name, Help: help}, labels)
	}
	m := &Metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: "job_controller", Name: "job_sync_duration_seconds", Help: "Time of one reconcile of a job.",
			Buckets: prometheus.ExponentialBuckets(0.004, 2, 15),
		}, []string{"completion_mode", "result", "action"}),
		syncs:    counter("job_syncs_total", "Reconciles of jobs.", "completion_mode", "result", "action"),
		finished: counter("jobs_finished_total", "Jobs that have ended.", "completion_mode", "result", "reason"),
		pods:     counter("job_pods_finished_total", "Pods whose end was counted.", "completion_mode", "result"),
		indexes:  counter("job_finished_indexes_total", "Indexes that have succeeded or failed.", "status", "backoffLimit"),
		creation: counter("job_pods_creation_total", "Pods that were created, by reason.", "reason", "status"),
		policy:   counter("pod_failures_handled_by_failure_policy_total", "Failed pods that a rule of the pod failure policy matched, by its action.", "action"),
		terminal: counter("terminated_pods_tracking_finalizer_total", "Pods that ended with the finalizer of jobs (add), and that lost it or went (delete).", "event"),
		skipped:  counter("stale_sync_skips_total", "Reconciles of jobs that were skipped because a cache was behind.", "group", "resource"),
		external: counter("jobs_by_external_controller_total", "Jobs that are left to other controllers.", "controller_name"),
	}
	registerer.MustRegister(m.seconds, m.syncs, m.finished, m.pods, m.indexes, m.creation, m.external, m.policy, m.terminal, m.skipped)
	return m
}

func mode(job *batchv1.Job) string {
	if indexed(job) {
		return string(batchv1.IndexedCompletion)
	}
	return string(batchv1.NonIndexedCompletion)
}

// seen counts jobs of other controllers.
func (m *Metrics) seen(job *batchv1.Job) {
	if m != nil && !ours(job) {
		m.external.WithLabelValues(*job.Spec.ManagedBy).Inc()
	}
}

// stale counts a reconcile that waits for a cache.
func (m *Metrics) stale(of schema.GroupResource) {
	if m != nil {
		m.skipped.WithLabelValues(of.Group, of.Resource).Inc()
	}
}

// tracking counts the ended pods that have the finalizer, whoever they belong to.
func (m *Metrics) tracking(old, new *corev1.Pod) {
	if m == nil {
		return
	}
	holds := func(p *corev1.Pod) bool {
		return p != nil && tracked(p) && (p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed)
	}
	switch was, is := holds(old), holds(new); {
	case is && !was:
		m.terminal.WithLabelValues("add").Inc()
	case was && !is:
		m.terminal.WithLabelValues("delete").Inc()
	}
}

// judged counts the failures that a pod failure policy has decided about, once the status that notes them is stored.
func (m *Metrics) judged(actions map[batchv1.PodFailurePolicyAction]int) {
	if m == nil {
		return
	}
	for action, n := range actions {
		m.policy.WithLabelValues(string(action)).Add(float64(n))
	}
}

// synced measures one reconcile.
func (m *Metrics) synced(job *batchv1.Job, plan Plan, settled bool, err error, took time.Duration) {
	if m == nil {
		return
	}
	result, action := "success", "tracking"
	if err != nil {
		result = "error"
	}
	switch {
	case !settled || len(plan.Stop) > 0:
		action = "reconciling"
	case len(plan.Create) > 0:
		action = "pods_created"
	case len(plan.Surplus) > 0:
		action = "pods_deleted"
	}
	m.seconds.WithLabelValues(mode(job), result, action).Observe(took.Seconds())
	m.syncs.WithLabelValues(mode(job), result, action).Inc()
}

// created counts pods that were made, all of them or, with an error, none.
func (m *Metrics) created(job *batchv1.Job, n int, err error) {
	if m == nil {
		return
	}
	reason, status := "new", "succeeded"
	if job.Status.Failed > 0 || deref(job.Status.Terminating) > 0 {
		reason = "recreate_terminating_or_failed"
		if onlyFailed(job) {
			reason = "recreate_failed"
		}
	}
	if err != nil {
		status = "failed"
	}
	m.creation.WithLabelValues(reason, status).Add(float64(n))
}

// wrote counts what a new status tells that the one before did not.
func (m *Metrics) wrote(before, after *batchv1.Job) {
	if m == nil {
		return
	}
	m.pods.WithLabelValues(mode(after), "succeeded").Add(float64(max(0, after.Status.Succeeded-before.Status.Succeeded)))
	m.pods.WithLabelValues(mode(after), "failed").Add(float64(max(0, after.Status.Failed-before.Status.Failed)))
	if indexed(after) {
		m.wroteIndexes(before, after)
	}
	for result, kind := range map[string]batchv1.JobConditionType{"succeeded": batchv1.JobComplete, "failed": batchv1.JobFailed} {
		if c := condition(after, kind); isTrue(c) && !isTrue(condition(before, kind)) {
			m.finished.WithLabelValues(mode(after), result, c.Reason).Inc()
		}
	}
}

func (m *Metrics) wroteIndexes(before, after *batchv1.Job) {
	limit, all := "global", int(deref(after.Spec.Completions))
	if after.Spec.BackoffLimitPerIndex != nil {
		limit = "perIndex"
	}
	more := func(status, was, is string) {
		m.indexes.WithLabelValues(status, limit).Add(float64(max(0, ParseIndexes(is, all).Len()-ParseIndexes(was, all).Len())))
	}
	more("succeeded", before.Status.CompletedIndexes, after.Status.CompletedIndexes)
	more("failed", deref(before.Status.FailedIndexes), deref(after.Status.FailedIndexes))
}
