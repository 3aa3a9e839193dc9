package nodestatus

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func thresholds(t *testing.T, text string) Thresholds {
	t.Helper()
	out, err := ParseThresholds(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestParseThresholds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Thresholds{
		"":                       {},
		"memory.available<1Gi":   {memory: threshold{number: 1 << 30}},
		"nodefs.available<12.5%": {disk: threshold{percent: 12.5}},
		"nodefs.available<0%,nodefs.inodesFree<1k": {inodes: threshold{number: 1000}},
		"pid.available<4%":                         {pids: threshold{percent: 4}},
	} {
		if got := thresholds(t, text); got != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
	for text, want := range map[string]string{
		"memory.available":                              `threshold "memory.available" is not signal<value`,
		"imagefs.available<1%":                          `unsupported signal "imagefs.available": one of memory.available, nodefs.available, nodefs.inodesFree, pid.available`,
		"pid.available<1%,pid.available<2%":             `signal "pid.available" has two thresholds`,
		"memory.available<100%":                         `"100%" is not a percentage`,
		"memory.available<NaN%":                         `"NaN%" is not a percentage`,
		"nodefs.available<-1":                           `"-1" is negative`,
		"nodefs.available<some":                         `threshold of nodefs.available: "some"`,
		"memory.available<x%,nodefs.available<y":        `threshold of nodefs.available: "y"`,
		"nodefs.inodesFree<-5%,nodefs.available<1000Mi": `"-5%" is not a percentage`,
	} {
		if _, err := ParseThresholds(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A disk that others fill too is short where its owner says so.
func TestDiskPressure(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"": false, "nodefs.available<1Ei": true, "nodefs.inodesFree<1E": true, "nodefs.available<1": false} {
		m := machine(t, nil)
		m.Thresholds = thresholds(t, text)
		if got, err := m.Pressure(); err != nil || got.Disk != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	m := machine(t, nil)
	m.Thresholds = thresholds(t, "nodefs.available<25%")
	capacity, allocatable, err := m.Capacity(1)
	if err != nil {
		t.Fatal(err)
	}
	whole, rest := capacity[corev1.ResourceEphemeralStorage], allocatable[corev1.ResourceEphemeralStorage]
	if share := float64(rest.Value()) / float64(whole.Value()); share < 0.74 || share > 0.76 {
		t.Errorf("allocatable is %v of %v", rest.Value(), whole.Value())
	}
}
