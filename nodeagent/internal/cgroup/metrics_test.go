package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestChangesOfGroupsAreMeasured(t *testing.T) {
	t.Parallel()
	mount, registry := t.TempDir(), prometheus.NewRegistry()
	for _, controller := range []string{"cpu", "memory"} {
		if err := os.Mkdir(filepath.Join(mount, controller), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tree := NewTree(mount, "")
	tree.Measure(registry)
	p := testPod("1", "64Mi")
	if err := tree.Ensure(p); err != nil {
		t.Fatal(err)
	}
	_ = tree.Remove(p) // the files of a group go with it, those of this folder do not
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"kubelet_cgroup_version": 1, "kubelet_cgroup_manager_duration_seconds create": 1, "kubelet_cgroup_manager_duration_seconds update": 1, "kubelet_cgroup_manager_duration_seconds destroy": 1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, not %v", name, got[name], want)
		}
	}
}
