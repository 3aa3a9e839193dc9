package worker

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

func TestWorkersAreCountedAndMeasured(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	w.metrics = NewMetrics(registry, clock.RealClock{})
	m, _ := w.start()
	p := newPod("p", "a", "b")
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "i:1"}}}
	m.Update(p)
	w.eventually("ready", w.ready(p.UID))
	reads := func(name string, want float64) {
		t.Helper()
		w.eventually(name, func() bool { return series(t, registry, name) == want })
	}
	reads(`kubelet_working_pods{config="desired",lifecycle="sync",static=""}`, 1)
	reads(`kubelet_active_pods{static=""}`, 1)
	reads(`kubelet_active_pods{static="true"}`, 0)
	reads("kubelet_managed_ephemeral_containers", 1)
	reads("kubelet_pod_worker_start_duration_seconds", 1)
	reads("kubelet_containers_per_pod_count", 1)
	reads(`kubelet_pod_worker_duration_seconds{operation_type="create"}`, 1)

	labelled := p.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	m.Update(labelled)
	reads(`kubelet_pod_worker_duration_seconds{operation_type="update"}`, 1)
	looks := series(t, registry, `kubelet_pod_worker_duration_seconds{operation_type="sync"}`)
	m.Wake(p.UID)
	w.eventually("a look", func() bool {
		return series(t, registry, `kubelet_pod_worker_duration_seconds{operation_type="sync"}`) > looks
	})

	m.Adopt("other", "ns", "other")
	reads("kubelet_orphaned_runtime_pods_total", 1)
	m.Update(endingPod(p, 1))
	w.eventually("gone", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return slices.Contains(w.deleted, "p") })
	reads(`kubelet_pod_worker_duration_seconds{operation_type="terminated"}`, 2)
	reads(`kubelet_active_pods{static=""}`, 0)
	reads(`kubelet_working_pods{config="desired",lifecycle="sync",static=""}`, 0)
}

func TestTally(t *testing.T) {
	t.Parallel()
	failed := newPod("p", "a")
	failed.Status.Phase = corev1.PodFailed
	static := newPod("p", "a")
	static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	for name, c := range map[string]struct {
		pod                     *corev1.Pod
		adopted, gone, stopped  bool
		lifecycle, config, kind string
		active                  int
	}{
		"one that runs":             {pod: newPod("p", "a"), lifecycle: "sync", config: "desired", active: 1},
		"a static one":              {pod: static, lifecycle: "sync", config: "desired", kind: "true", active: 1},
		"one that is to end":        {pod: endingPod(newPod("p", "a"), 1), lifecycle: "terminating", config: "desired", active: 1},
		"one that has ended":        {pod: failed, stopped: true, lifecycle: "terminated", config: "desired"},
		"one that ended before":     {pod: failed, lifecycle: "sync", config: "desired"},
		"one that has left the API": {pod: newPod("p", "a"), gone: true, lifecycle: "terminating", config: "orphan"},
		"one of the runtime's":      {pod: newPod("p"), gone: true, adopted: true, lifecycle: "terminating", config: "runtime_only", kind: "unknown"},
	} {
		w := &worker{pod: c.pod, gone: c.gone, adopted: c.adopted, stopped: make(chan struct{})}
		if c.stopped {
			close(w.stopped)
		}
		got := (&Manager{workers: map[types.UID]*worker{c.pod.UID: w}}).count()
		if n := got.working[group{c.lifecycle, c.config, c.kind}]; n != 1 {
			t.Errorf("%s: it is counted %d times; there are %v", name, n, got.working)
		}
		if got.active[c.kind] != c.active {
			t.Errorf("%s: %v are active, not %d", name, got.active, c.active)
		}
	}
}

func TestRequestsAreThoseOfTheMostImportant(t *testing.T) {
	t.Parallel()
	first, later := time.Unix(1, 0), time.Unix(2, 0)
	var r requests
	for _, c := range []struct {
		asked []operation
		want  operation
		since time.Time
	}{
		{nil, look, later},
		{[]operation{look, update, look}, update, first},
		{[]operation{kill, create, update}, kill, first},
	} {
		for i, what := range c.asked {
			r.add(what, first.Add(time.Duration(i)*time.Millisecond))
		}
		if what, since := r.take(later); what != c.want || !since.Equal(c.since) {
			t.Errorf("%v: %s since %v", c.asked, what, since)
		}
	}
}

func TestHooksThatSleepTooLongAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	w.metrics = NewMetrics(registry, clock.RealClock{})
	m, _ := w.start()
	p := newPod("p", "a")
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 60}}}
	m.Update(p)
	w.eventually("ready", w.ready(p.UID))
	m.Update(endingPod(p, 1))
	w.eventually("counted", func() bool { return series(t, registry, "kubelet_sleep_action_terminated_early_total") == 1 })
}
