package cpu

import (
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"howdah.dev/nodeagent/internal/topology"
)

func TestWholeCoresAreCounted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options      Options
		cpus         string
		done, failed float64
	}{
		"whole cores":               {Options{FullCores: true}, "2", 1, 0},
		"half a core":               {Options{FullCores: true}, "1", 0, 1},
		"where halves will do":      {Options{}, "2", 0, 0},
		"nothing for the container": {Options{FullCores: true}, "500m", 0, 0},
	} {
		registry := prometheus.NewRegistry()
		m, err := New(Config{
			Machine: machine(), Reserved: cpuset.New(0), Options: c.options, State: filepath.Join(t.TempDir(), "state"), Registerer: registry,
			Aligned: topology.NewAligned(registry), Changed: func() {},
		})
		if err != nil {
			t.Fatal(err)
		}
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{asks("c", c.cpus)}}}
		_ = m.Allocate(t.Context(), p, &p.Spec.Containers[0], topology.Hint{})
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			got[f.GetName()] = f.GetMetric()[0].GetCounter().GetValue()
		}
		done, failed := got["kubelet_container_aligned_compute_resources_count"], got["kubelet_container_aligned_compute_resources_failure_count"]
		if done != c.done || failed != c.failed {
			t.Errorf("%s: %v and %v, not %v and %v", name, done, failed, c.done, c.failed)
		}
	}
}
