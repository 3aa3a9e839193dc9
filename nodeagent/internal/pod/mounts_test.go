package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestMountStatuses(t *testing.T) {
	t.Parallel()
	mode := func(m corev1.RecursiveReadOnlyMode) *corev1.RecursiveReadOnlyMode { return &m }
	for name, test := range map[string]struct {
		mount     corev1.VolumeMount
		supported bool
		want      string // of the status
		insists   bool   // without support it fails
	}{
		"writable":                {corev1.VolumeMount{}, true, "", false},
		"read-only":               {corev1.VolumeMount{ReadOnly: true}, true, "Disabled", false},
		"said to be disabled":     {corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: mode(corev1.RecursiveReadOnlyDisabled)}, true, "Disabled", false},
		"possible":                {corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: mode(corev1.RecursiveReadOnlyIfPossible)}, true, "Enabled", false},
		"not possible":            {corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: mode(corev1.RecursiveReadOnlyIfPossible)}, false, "Disabled", false},
		"enabled":                 {corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: mode(corev1.RecursiveReadOnlyEnabled)}, true, "Enabled", false},
		"enabled and impossible":  {corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: mode(corev1.RecursiveReadOnlyEnabled)}, false, "Disabled", true},
		"if possible, but writes": {corev1.VolumeMount{RecursiveReadOnly: mode(corev1.RecursiveReadOnlyIfPossible)}, true, "", false},
	} {
		test.mount.Name, test.mount.MountPath = "v", "/v"
		c := &corev1.Container{VolumeMounts: []corev1.VolumeMount{test.mount}}
		got := mountStatuses(c, test.supported)
		if len(got) != 1 || got[0].Name != "v" || got[0].MountPath != "/v" || got[0].ReadOnly != test.mount.ReadOnly {
			t.Fatalf("%s: %+v", name, got)
		}
		said := ""
		if got[0].RecursiveReadOnly != nil {
			said = string(*got[0].RecursiveReadOnly)
		}
		if said != test.want {
			t.Errorf("%s: %q, want %q", name, said, test.want)
		}
		if _, err := RecursiveReadOnly(&test.mount, test.supported); (err != nil) != test.insists {
			t.Errorf("%s: %v", name, err)
		}
	}
}
