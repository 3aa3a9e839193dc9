package nodeagent

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object/objecttest"
	"howdah.dev/nodeagent/internal/probe"
)

// TestMetricsOfAnAgent makes a whole agent: no two of its parts may claim one name, and what dashboards for kubelets ask for is there from the start.
func TestMetricsOfAnAgent(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	registry := prometheus.NewRegistry()
	_, err := New(Config{
		NodeName: "n", NodeIP: "192.0.2.1", Objects: client, RuntimeEndpoint: "unix:///nowhere", RootDir: t.TempDir(), LogDir: t.TempDir(), KubeletDir: t.TempDir(),
		Registerer: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"kubelet_node_name", "kubelet_running_pods", "kubelet_running_containers", "kubelet_pod_start_duration_seconds", "kubelet_pod_worker_duration_seconds",
		"kubelet_pleg_relist_duration_seconds", "kubelet_pleg_relist_interval_seconds", "kubelet_working_pods", "kubelet_pod_status_sync_duration_seconds", "kubelet_cgroup_version",
		"kubelet_restarted_pods_total",
	} {
		if n, err := testutil.GatherAndCount(registry, name); n == 0 || err != nil {
			t.Errorf("%s is not there, %v", name, err)
		}
	}
}

func TestProbesAreMeasuredWhileTheirPodIsThere(t *testing.T) {
	t.Parallel()
	m := newProbeMetrics()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
	target := probe.Target{Pod: p, Container: &corev1.Container{Name: "c"}}
	m.probed(target, probe.Liveness, "successful", time.Second)
	m.probed(target, probe.Readiness, "unknown", time.Second)
	m.probed(target, probe.Startup, "failed", time.Second)
	if results, times := testutil.CollectAndCount(m.results), testutil.CollectAndCount(m.seconds); results != 3 || times != 2 {
		t.Errorf("%d results, and times of %d kinds; a probe that fails has none", results, times)
	}
	m.forget(p)
	if results, times := testutil.CollectAndCount(m.results), testutil.CollectAndCount(m.seconds); results != 0 || times != 0 {
		t.Errorf("%d results and %d times are left of a pod that is gone", results, times)
	}
}
