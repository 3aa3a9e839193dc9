package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/leading/leadingtest"
	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/config"
	"howdah.dev/services/scheduler/internal/device"
	"howdah.dev/services/scheduler/internal/queue"
	"howdah.dev/services/scheduler/internal/storage"
)

// series are the values of a registry by name and labels, as in `scheduler_pending_pods{queue="active"}`; those of histograms are how much was observed.
func series(t testing.TB, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			if f.GetType() == dto.MetricType_HISTOGRAM {
				value = float64(m.GetHistogram().GetSampleCount())
			}
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			values[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = value
		}
	}
	return values
}

// awaitSeries waits until all of them are as they are wanted.
func (w *world) awaitSeries(wants map[string]float64) {
	w.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		values := series(w, w.registry)
		wrong := maps.Clone(wants)
		maps.DeleteFunc(wrong, func(name string, want float64) bool { got, ok := values[name]; return got == want && (ok || want == 0) })
		if len(wrong) == 0 {
			return
		}
		if time.Now().After(deadline) {
			for _, name := range slices.Sorted(maps.Keys(wrong)) {
				w.Errorf("%s is %v, want %v", name, values[name], wrong[name])
			}
			w.Fatalf("there are %v", slices.Sorted(maps.Keys(values)))
		}
		time.Sleep(5 * time.Millisecond) // metrics tell nobody when they move
	}
}

const everyTime = `,profile="default-scheduler"`

// TestMetricsOfPods follows pods that go to nodes, that no node takes, that make room, and that may not be tried yet.
func TestMetricsOfPods(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) {
		w.addNode(node("a", "4"))
		w.addNode(node("b", "4"))
	})
	w.addPod(t.Context(), pod("first", "2"))
	w.awaitPods("the first to be bound", bound(1))
	w.awaitSeries(map[string]float64{
		`scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"}`:                                              1,
		`scheduler_scheduling_attempt_duration_seconds{profile="default-scheduler",result="scheduled"}`:                                  1,
		`scheduler_pod_scheduling_attempts{}`:                                                                                            1,
		`scheduler_pod_scheduling_sli_duration_seconds{attempts="1"}`:                                                                    1,
		`scheduler_queue_incoming_pods_total{event="UnschedulablePodAdd",queue="active"}`:                                                1,
		`scheduler_framework_extension_point_duration_seconds{extension_point="PreFilter",profile="default-scheduler",status="Success"}`: 1,
		`scheduler_framework_extension_point_duration_seconds{extension_point="Filter",profile="default-scheduler",status="Success"}`:    1,
		`scheduler_framework_extension_point_duration_seconds{extension_point="PreScore",profile="default-scheduler",status="Success"}`:  1,
		`scheduler_framework_extension_point_duration_seconds{extension_point="Score",profile="default-scheduler",status="Success"}`:     1,
		`scheduler_framework_extension_point_duration_seconds{extension_point="Bind",profile="default-scheduler",status="Success"}`:      1,
		`scheduler_plugin_evaluation_total{extension_point="PreFilter",plugin="NodeResourcesFit",profile="default-scheduler"}`:           1,
		`scheduler_plugin_evaluation_total{extension_point="Filter",plugin="NodeResourcesFit",profile="default-scheduler"}`:              2,
		`scheduler_plugin_evaluation_total{extension_point="PreScore",plugin="NodeResourcesFit",profile="default-scheduler"}`:            1,
		`scheduler_plugin_evaluation_total{extension_point="Score",plugin="NodeResourcesFit",profile="default-scheduler"}`:               2,
		`scheduler_cache_size{type="nodes"}`:                                     2,
		`scheduler_cache_size{type="pods"}`:                                      1,
		`scheduler_cache_size{type="assumed_pods"}`:                              0,
		`scheduler_event_handling_duration_seconds{event="NodeAdd"}`:             2,
		`scheduler_event_handling_duration_seconds{event="UnschedulablePodAdd"}`: 1,
		`scheduler_event_handling_duration_seconds{event="AssignedPodAdd"}`:      1,
		`scheduler_goroutines{operation="binding"}`:                              0,
		`scheduler_pending_pods{queue="active"}`:                                 0,
	})

	large := pod("large", "5")
	large.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "a"}
	w.addPod(t.Context(), large)
	w.awaitSeries(map[string]float64{
		`scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"}`:                                                 1,
		`scheduler_scheduling_attempt_duration_seconds{profile="default-scheduler",result="unschedulable"}`:                                     1,
		`scheduler_queue_incoming_pods_total{event="ScheduleAttemptFailure",queue="unschedulable"}`:                                             1,
		`scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"}`:                                                   1,
		`scheduler_unschedulable_pods{plugin="NodeAffinity",profile="default-scheduler"}`:                                                       1,
		`scheduler_framework_extension_point_duration_seconds{extension_point="PostFilter",profile="default-scheduler",status="Unschedulable"}`: 1,
		`scheduler_plugin_execution_duration_seconds{extension_point="PostFilter",plugin="DefaultPreemption",status="Unschedulable"}`:           1,
		`scheduler_pending_pods{queue="unschedulable"}`:                                                                                         1,
	})
	gated := pod("gated", "1")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
	w.addPod(t.Context(), gated)
	w.awaitSeries(map[string]float64{
		`scheduler_pending_pods{queue="gated"}`:                                                  1,
		`scheduler_unschedulable_pods{plugin="SchedulingGates",profile="default-scheduler"}`:     1,
		`scheduler_queue_incoming_pods_total{event="UnschedulablePodAdd",queue="unschedulable"}`: 1,
	})

	grown := node("a", "8")
	w.updateNode(grown)
	w.awaitPods("the large one to be bound", bound(2))
	w.awaitSeries(map[string]float64{
		`scheduler_pod_scheduling_sli_duration_seconds{attempts="2"}`:                                                                  1,
		`scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"}`:                                          0,
		`scheduler_event_handling_duration_seconds{event="NodeUpdateNodeAllocatable"}`:                                                 1,
		`scheduler_queueing_hint_execution_duration_seconds{event="NodeUpdateNodeAllocatable",hint="Queue",plugin="NodeResourcesFit"}`: 1,
		`scheduler_queueing_hint_execution_duration_seconds{event="NodeUpdateNodeAllocatable",hint="QueueSkip",plugin="NodeAffinity"}`: 1,
	})
	urgent := pod("urgent", "8")
	urgent.Spec.Priority = ptr.To(int32(1000))
	w.addPod(t.Context(), urgent)
	w.awaitSeries(map[string]float64{
		`scheduler_framework_extension_point_duration_seconds{extension_point="PostFilter",profile="default-scheduler",status="Success"}`: 1,
		`scheduler_preemption_victims{}`: 1,
	})
}

func (w *world) updateNode(n *corev1.Node) {
	w.Helper()
	nodes := object.For(w.client, object.Node)
	now, err := nodes.Get(context.Background(), "", n.Name)
	if err != nil {
		w.Fatal(err)
	}
	now.Status.Allocatable = n.Status.Allocatable
	if _, err := nodes.UpdateStatus(context.Background(), now); err != nil {
		w.Fatal(err)
	}
}

func TestMetricsOfAFailedBinding(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) {
		refused := false
		w.api.Intercept = func(write objecttest.Write) error {
			if write.Subresource == "binding" && !refused {
				refused = true
				return errors.New("no")
			}
			return nil
		}
		w.addNode(node("a", "4"))
	})
	w.addPod(t.Context(), pod("p", "1"))
	w.awaitPods("the pod to be bound", bound(1))
	w.awaitSeries(map[string]float64{
		`scheduler_schedule_attempts_total{profile="default-scheduler",result="error"}`:                                           1,
		`scheduler_scheduling_attempt_duration_seconds{profile="default-scheduler",result="error"}`:                               1,
		`scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"}`:                                       1,
		`scheduler_framework_extension_point_duration_seconds{extension_point="Bind",profile="default-scheduler",status="Error"}`: 1,
		`scheduler_queue_incoming_pods_total{event="ScheduleAttemptFailure",queue="backoff"}`:                                     1,
		`scheduler_queue_incoming_pods_total{event="BackoffComplete",queue="active"}`:                                             1,
		`scheduler_pod_scheduling_sli_duration_seconds{attempts="2"}`:                                                             1,
	})
}

func TestAttemptsTold(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]string{0: "1", 1: "2", 13: "14", 14: "15+", 99: "15+"} {
		m := newMetrics(prometheus.NewRegistry(), state{queue.New(clock.RealClock{}, queue.DefaultBackoffs), cluster.NewCache()})
		now := time.Now()
		m.bound(&queue.Item{Attempts: failures, Since: now.Add(-time.Second), Flushed: failures == 1}, now)
		if m.pods.DeleteLabelValues(want) != true {
			t.Errorf("%d failures are not told as %s attempts", failures, want)
		}
		if got := testutil.ToFloat64(m.flushed); got != map[bool]float64{true: 1}[failures == 1] {
			t.Errorf("%v pods were woken by nothing", got)
		}
	}
}

func TestPluginsAreTimedInSomeCycles(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	s := &Server{cfg: Config{Clock: clock.RealClock{}}, profiles: profilesOf(config.Default("default-scheduler")), cache: cluster.NewCache(), queue: queue.New(clock.RealClock{}, queue.DefaultBackoffs), seed: seed}
	s.profiles.count(newMetrics(registry, state{s.queue, s.cache}))
	for i := range 2 {
		s.cache.SetNode(node(numbered("node", i), "4"))
	}
	profile := s.profiles.all[0]
	for _, tie := range []int{9, 10, 99} { // of these, one is below what is timed
		_, timing := profile.Place([]*corev1.Pod{pod("p", "1")}, s.cache.Snapshot(), func(n int) int { return min(tie, n-1) }, time.Now)
		profile.metrics.cycle(timing)
	}
	values := series(t, registry)
	for name, want := range map[string]float64{
		`{extension_point="PreFilter",plugin="NodeResourcesFit",status="Success"}`: 1,
		`{extension_point="PreFilter",plugin="NodeAffinity",status="Skip"}`:        1,
		`{extension_point="Filter",plugin="NodeResourcesFit",status="Success"}`:    2,
		`{extension_point="PreScore",plugin="NodeResourcesFit",status="Success"}`:  1,
		`{extension_point="Score",plugin="NodeResourcesFit",status="Success"}`:     2,
		`{extension_point="PreFilter",plugin="NodeName",status="Skip"}`:            0, // Kubernetes does not have it there
	} {
		if got := values["scheduler_plugin_execution_duration_seconds"+name]; got != want {
			t.Errorf("%s was timed %v times, want %v", name, got, want)
		}
	}
}

func TestPodEvent(t *testing.T) {
	t.Parallel()
	s := &Server{profiles: profilesOf(config.Default("default-scheduler"))}
	waiting, there, ended, foreign := pod("p", "1"), pod("p", "1"), pod("p", "1"), pod("p", "1")
	there.Spec.NodeName, ended.Spec.NodeName, ended.Status.Phase, foreign.Spec.SchedulerName = "n", "n", corev1.PodSucceeded, "another"
	tests := []struct {
		old, pod *corev1.Pod
		want     queue.Event
	}{
		{nil, waiting, "UnschedulablePodAdd"},
		{waiting, waiting, "UnschedulablePodUpdate"},
		{waiting, nil, "UnschedulablePodDelete"},
		{waiting, there, "AssignedPodAdd"},
		{nil, there, "AssignedPodAdd"},
		{there, there, "AssignedPodUpdate"},
		{there, ended, "AssignedPodDelete"},
		{there, nil, "AssignedPodDelete"},
		{ended, ended, ""},
		{ended, nil, ""},
		{nil, ended, ""},
		{nil, foreign, ""},
		{foreign, nil, ""},
	}
	for i, tt := range tests {
		if got := s.podEvent(tt.old, tt.pod); got != tt.want {
			t.Errorf("%d: %q, want %q", i, got, tt.want)
		}
	}
}

func TestNodeEvent(t *testing.T) {
	t.Parallel()
	for want, change := range map[queue.Event]func(*corev1.Node){
		"":                              func(n *corev1.Node) { n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}} },
		"NodeUpdateNodeTaint":           func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a"}} },
		"NodeUpdateNodeLabel":           func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} },
		"NodeUpdateNodeAllocatable":     func(n *corev1.Node) { n.Status.Allocatable = resources("1", "1", "1") },
		"NodeUpdateNodeDeclaredFeature": func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{"a"} },
	} {
		old, now := node("n", "4"), node("n", "4")
		change(now)
		if got := nodeEvent(old, now); got != want {
			t.Errorf("%q is told as %q", want, got)
		}
	}
	if added, deleted := nodeEvent(nil, node("n", "4")), nodeEvent(node("n", "4"), nil); added != "NodeAdd" || deleted != "NodeDelete" {
		t.Errorf("told as %q and %q", added, deleted)
	}
}

func TestPodResources(t *testing.T) {
	t.Parallel()
	many := prometheus.NewRegistry()
	w := &world{TB: t, resources: many}
	w.api = objecttest.New()
	w.client = w.api.Serve(t)
	limited := pod("limited", "1500m")
	limited.Spec.NodeName, limited.Spec.Priority = "n", ptr.To(int32(7))
	limited.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi"), "hugepages-2Mi": resource.MustParse("2Mi"), "example.com/gpu": resource.MustParse("2")}
	done := pod("done", "1")
	done.Spec.NodeName, done.Status.Phase = "n", corev1.PodSucceeded
	w.addPod(t.Context(), limited)
	w.addPod(t.Context(), done)
	w.addPod(t.Context(), pod("waits", "100m"))
	w.scheduler(leadingtest.Closed())
	for deadline := time.Now().Add(time.Minute); len(series(t, many)) < 7 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	const (
		of    = `{namespace="shop",node="n",pod="limited",priority="7",resource=`
		waits = `{namespace="shop",node="",pod="waits",priority="",resource=`
	)
	want := map[string]float64{
		"kube_pod_resource_request" + of + `"cpu",scheduler="default-scheduler",unit="cores"}`:         1.5,
		"kube_pod_resource_request" + of + `"memory",scheduler="default-scheduler",unit="bytes"}`:      64 << 20,
		"kube_pod_resource_limit" + of + `"memory",scheduler="default-scheduler",unit="bytes"}`:        1 << 30,
		"kube_pod_resource_limit" + of + `"hugepages-2Mi",scheduler="default-scheduler",unit="bytes"}`: 2 << 20,
		"kube_pod_resource_limit" + of + `"example.com/gpu",scheduler="default-scheduler",unit=""}`:    2,
		"kube_pod_resource_request" + waits + `"cpu",scheduler="default-scheduler",unit="cores"}`:      0.1,
		"kube_pod_resource_request" + waits + `"memory",scheduler="default-scheduler",unit="bytes"}`:   64 << 20,
	}
	if got := series(t, many); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// TestMetricsOfReservations: what is assumed and written for a pod before its binding.
func TestMetricsOfReservations(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	s := &Server{cfg: Config{Clock: clock.RealClock{}}, profiles: profilesOf(config.Default("default-scheduler")), cache: cluster.NewCache(), queue: queue.New(clock.RealClock{}, queue.DefaultBackoffs)}
	s.profiles.count(newMetrics(registry, state{s.queue, s.cache}))
	d := decision{item: &queue.Item{Pod: pod("p", "1")}, node: "n", volumes: &storage.Choice{}, devices: &device.Choice{}}
	s.reserved(&d, time.Now())
	d.fails("no")
	s.reserved(&d, time.Now())
	for _, code := range []string{"Success", "Error"} {
		if got := series(t, registry)[`scheduler_framework_extension_point_duration_seconds{extension_point="Reserve"`+everyTime+`,status="`+code+`"}`]; got != 1 {
			t.Errorf("%v reservations were told as %s", got, code)
		}
	}
}
