package volume

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// count returns what a registry holds by name and labels: values, and of histograms how often they were told of something.
func count(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			out[name] = m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

func TestVolumesAreCountedAndMeasured(t *testing.T) {
	t.Parallel()
	type change = map[string]float64
	for name, c := range map[string]struct {
		source corev1.VolumeSource
		plugin string
		fails  bool
		after  change // a second setup
	}{
		"an empty folder": {source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, plugin: "kubernetes.io/empty-dir"},
		"files in memory": {source: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}, plugin: "kubernetes.io/secret",
			after: change{"storage_operation_duration_seconds false volume_mount success kubernetes.io/secret": 2}},
		"files that cannot be": {source: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}}},
			plugin: "kubernetes.io/configmap", fails: true},
		"a driver's": {source: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d.test"}}, plugin: "kubernetes.io/csi:d.test"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _, _ := setup(t)
			p, registry := podWith(c.source), prometheus.NewRegistry()
			m.cfg.Pods = func() []*corev1.Pod { return []*corev1.Pod{p} }
			m.metrics = newMetrics(m, registry)
			setup := func() {
				t.Helper()
				if _, err := m.Setup(t.Context(), p, &corev1.PodStatus{}); (err != nil) != c.fails {
					t.Fatal(err)
				}
			}
			check := func(when string, want change) {
				t.Helper()
				got := count(t, registry)
				for series, n := range want {
					if got[series] != n {
						t.Errorf("%s: %s is %v, not %v", when, series, got[series], n)
					}
				}
			}
			desired, actual := "volume_manager_total_volumes "+c.plugin+" desired_state_of_world", "volume_manager_total_volumes "+c.plugin+" actual_state_of_world"
			check("before", change{desired: 1, actual: 0})
			setup()
			if c.fails {
				check("after", change{desired: 1, actual: 0, "storage_operation_duration_seconds false volume_mount fail-unknown " + c.plugin: 1})
				return
			}
			want := change{desired: 1, actual: 1, "storage_operation_duration_seconds false volume_mount success " + c.plugin: 1}
			check("after", want)
			setup()
			maps.Copy(want, c.after)
			check("once more", want)
			if err := m.Cleanup(t.Context(), p.UID); err != nil {
				t.Fatal(err)
			}
			want = change{desired: 1, actual: 0}
			if c.source.CSI == nil { // drivers' are their own to measure
				want["storage_operation_duration_seconds false volume_unmount success "+c.plugin] = 1
			}
			check("at the end", want)
		})
	}
}

func TestOrphansAreCounted(t *testing.T) {
	t.Parallel()
	m, _, _ := setup(t)
	registry := prometheus.NewRegistry()
	m.metrics = newMetrics(m, registry)
	p := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	if _, err := m.Setup(t.Context(), p, &corev1.PodStatus{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []float64{1, 0} {
		m.Orphans(t.Context(), func(types.UID) bool { return false })
		if got := count(t, registry); got["kubelet_orphan_pod_cleaned_volumes"] != want || got["kubelet_orphan_pod_cleaned_volumes_errors"] != 0 {
			t.Errorf("%v pods are told of, not %v", got["kubelet_orphan_pod_cleaned_volumes"], want)
		}
	}
}
