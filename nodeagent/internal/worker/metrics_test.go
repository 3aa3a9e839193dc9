package worker

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestMetricsCountEveryEndOfAContainerOnce(t *testing.T) {
	t.Parallel()
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := func(code int32, reason string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}
	}
	containers := func(state corev1.ContainerState) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: state}, {Name: "other", State: running}}}
	}
	for name, c := range map[string]struct {
		stored corev1.PodStatus // what the API has when the agent first sees the pod
		seen   []corev1.PodStatus
		want   map[[3]string]float64
	}{
		"an end that is told again": {
			seen: []corev1.PodStatus{containers(running), containers(ended(139, "Error")), containers(ended(139, "Error"))},
			want: map[[3]string]float64{{"container", "139", "Error"}: 1},
		},
		"two runs": {
			seen: []corev1.PodStatus{containers(ended(1, "Error")), containers(running), containers(ended(1, "Error"))},
			want: map[[3]string]float64{{"container", "1", "Error"}: 2},
		},
		"an end before the agent's start": {
			stored: containers(ended(0, "Completed")),
			seen:   []corev1.PodStatus{containers(ended(0, "Completed")), containers(ended(0, "Completed"))},
		},
		"the other kinds": {
			seen: []corev1.PodStatus{{
				InitContainerStatuses:      []corev1.ContainerStatus{{Name: "main", State: ended(0, "Completed")}},
				EphemeralContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: ended(137, "OOMKilled")}},
			}},
			want: map[[3]string]float64{{"init_container", "0", "Completed"}: 1, {"ephemeral_container", "137", "OOMKilled"}: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := NewMetrics(prometheus.NewRegistry(), clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID("u")}, Status: c.stored}
			for i := range c.seen {
				m.observe(p, &c.seen[i])
			}
			if got := testutil.CollectAndCount(m.terminations); got != len(c.want) {
				t.Errorf("%d kinds of ends are counted, not %d", got, len(c.want))
			}
			for labels, want := range c.want {
				if got := testutil.ToFloat64(m.terminations.WithLabelValues(labels[:]...)); got != want {
					t.Errorf("%v is counted %v times, not %v", labels, got, want)
				}
			}
		})
	}
}

// read returns what a registry holds: values of counters and gauges, and how often histograms were told of something.
func read(t *testing.T, registry *prometheus.Registry, names ...string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		if len(names) > 0 && !slices.Contains(names, family.GetName()) {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			name := family.GetName()
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			out[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// series is the value of one series, 0 where it is not there.
func series(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	return read(t, registry)[name]
}

// expect checks all series of some metrics.
func expect(t *testing.T, registry *prometheus.Registry, names []string, want string) {
	t.Helper()
	all := read(t, registry, names...)
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&got, "%s %v\n", name, all[name])
	}
	if got.String() != want {
		t.Errorf("the metrics are\n%s, not\n%s", got.String(), want)
	}
}

func TestMetricsOfContainers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	w.metrics = NewMetrics(registry, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	m, _ := w.start()
	p := newPod("p", "a", "b")
	w.runtime.Fail("CreateContainer", errors.New("no room"))
	m.Update(p)
	w.eventually("refused", func() bool { return w.told("a Failed: Error: no room") })
	w.runtime.Fail("CreateContainer", nil)
	w.eventually("ready", w.ready(p.UID))
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`# HELP kubelet_running_containers Containers by state: running or exited.
# TYPE kubelet_running_containers gauge
kubelet_running_containers{container_state="exited"} 0
kubelet_running_containers{container_state="running"} 2
# HELP kubelet_started_pods_total Sandboxes that were asked for.
# TYPE kubelet_started_pods_total counter
kubelet_started_pods_total 1
`), "kubelet_running_containers", "kubelet_started_pods_total"); err != nil {
		t.Error(err)
	}
	if failed := testutil.ToFloat64(w.metrics.containersFailed.WithLabelValues("container", "CreateContainerError")); failed < 1 {
		t.Errorf("%v failures", failed)
	}
	if started := testutil.ToFloat64(w.metrics.containersStarted.WithLabelValues("container")); started < 3 {
		t.Errorf("%v starts", started)
	}
}
