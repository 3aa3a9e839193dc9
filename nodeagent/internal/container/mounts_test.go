package container

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestReadOnlyVolumes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		source corev1.VolumeSource
		want   bool
	}{
		"written by the agent": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}, true},
		"a folder":             {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, false},
		"a claim":              {corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}, false},
		"a claim to read":      {corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ReadOnly: true}}, true},
		"a driver's to read":   {corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{ReadOnly: ptr.To(true)}}, true},
		"a disk":               {corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}, false},
		"a disk to read":       {corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{ReadOnly: true}}, true},
	} {
		if got := ReadOnlyVolume(&corev1.Volume{VolumeSource: test.source}); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
