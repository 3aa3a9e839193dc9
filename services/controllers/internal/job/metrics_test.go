package job

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	m := NewMetrics(prometheus.NewRegistry())
	before := newJob(perIndex(1), func(j *batchv1.Job) { j.Status.CompletedIndexes, j.Status.Succeeded = "0", 1 })
	after := before.DeepCopy()
	after.Status.CompletedIndexes, after.Status.Succeeded, after.Status.FailedIndexes, after.Status.Failed = "0-2", 3, ptr.To("3"), 2
	set(&after.Status, batchv1.JobFailed, corev1.ConditionTrue, batchv1.JobReasonFailedIndexes, "", start)
	m.wrote(before, after)
	m.wrote(after, after)
	m.synced(after, Plan{Create: []NewPod{{}}}, true, nil, time.Second)
	other := newJob(func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("example.com/queue") })
	m.seen(other)
	m.seen(before)
	m.stale(object.Pod.GroupResource())
	m.judged(map[batchv1.PodFailurePolicyAction]int{batchv1.PodFailurePolicyActionIgnore: 3})
	pending, ended, free := &corev1.Pod{}, &corev1.Pod{}, &corev1.Pod{}
	pending.Finalizers = []string{batchv1.JobTrackingFinalizer}
	ended.Finalizers, ended.Status.Phase, free.Status.Phase = pending.Finalizers, corev1.PodFailed, corev1.PodFailed
	for _, change := range [][2]*corev1.Pod{{nil, pending}, {pending, ended}, {ended, ended}, {ended, free}, {free, nil}, {nil, ended}} {
		m.tracking(change[0], change[1])
	}
	for _, c := range []struct {
		metric prometheus.Collector
		want   float64
	}{
		{m.pods.WithLabelValues("Indexed", "succeeded"), 2},
		{m.pods.WithLabelValues("Indexed", "failed"), 2},
		{m.indexes.WithLabelValues("succeeded", "perIndex"), 2},
		{m.indexes.WithLabelValues("failed", "perIndex"), 1},
		{m.finished.WithLabelValues("Indexed", "failed", "FailedIndexes"), 1},
		{m.syncs.WithLabelValues("Indexed", "success", "pods_created"), 1},
		{m.skipped.WithLabelValues("", "pods"), 1},
		{m.policy.WithLabelValues("Ignore"), 3},
		{m.terminal.WithLabelValues("add"), 2},
		{m.terminal.WithLabelValues("delete"), 1},
		{m.external.WithLabelValues("example.com/queue"), 1},
	} {
		if got := testutil.ToFloat64(c.metric); got != c.want {
			t.Errorf("%v is %v, want %v", c.metric, got, c.want)
		}
	}
}
