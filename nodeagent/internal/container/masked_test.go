package container

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestHeatIsMasked(t *testing.T) {
	t.Parallel()
	sys := t.TempDir()
	var want []string
	for _, cpu := range []string{"cpu0", "cpu1"} {
		want = append(want, filepath.Join(sys, "devices/system/cpu", cpu, "thermal_throttle"))
	}
	for _, folder := range append([]string{filepath.Join(sys, "devices/system/cpu/cpu2"), filepath.Join(sys, "devices/system/cpu/cpufreq/thermal_throttle")}, want...) {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := masked(sys); !slices.Equal(got, append(slices.Clone(maskedPaths), want...)) {
		t.Errorf("masked are %q", got)
	}
}
