package container

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestVolumesThatAreDevices gives a container the devices that it asks for, to read alone where the pod asks for that.
func TestVolumesThatAreDevices(t *testing.T) {
	t.Parallel()
	b := builder(t)
	claim := func(name string, readOnly bool) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name, ReadOnly: readOnly}}}
	}
	b.Pod.Spec.Volumes = []corev1.Volume{claim("v", false), claim("r", true), claim("folder", false)}
	c := corev1.Container{Name: "c", Image: "i", VolumeDevices: []corev1.VolumeDevice{{Name: "v", DevicePath: "/dev/v"}, {Name: "r", DevicePath: "/mnt/r"}}}
	run := Run{Container: &c, ImageRef: "sha256:i", Volumes: Volumes{Mounts: map[string]string{"folder": "/f"}, Devices: map[string]string{"v": "/links/v", "r": "/links/r"}}}
	config, err := b.Container(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][3]string{{"/dev/v", "/links/v", "mrw"}, {"/mnt/r", "/links/r", "r"}} {
		if d := config.GetDevices()[i]; d.GetContainerPath() != want[0] || d.GetHostPath() != want[1] || d.GetPermissions() != want[2] {
			t.Errorf("device %v, want %v", d, want)
		}
	}
	for text, d := range map[string]corev1.VolumeDevice{
		`cannot find volume "folder" to pass into container "c"`: {Name: "folder", DevicePath: "/dev/f"},
		"error DevicePath `dev/v` must be an absolute path":      {Name: "v", DevicePath: "dev/v"},
	} {
		bad := c
		bad.VolumeDevices = []corev1.VolumeDevice{d}
		run.Container = &bad
		if _, err := b.Container(t.Context(), run); err == nil || err.Error() != text {
			t.Errorf("error %v, want %s", err, text)
		}
	}
	bad := c
	bad.VolumeDevices, bad.VolumeMounts = nil, []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	run.Container = &bad
	if _, err := b.Container(t.Context(), run); err == nil || err.Error() != `cannot find volume "v" to mount into container "c"` {
		t.Errorf("a device that is mounted: %v", err)
	}
}
