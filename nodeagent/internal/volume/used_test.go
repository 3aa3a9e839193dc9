package volume

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestUsed knows a volume that containers have in each of their ways, and makes no other.
func TestUsed(t *testing.T) {
	t.Parallel()
	mounts := corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}
	device := corev1.Container{VolumeDevices: []corev1.VolumeDevice{{Name: "v", DevicePath: "/dev/v"}}}
	for name, test := range map[string]struct {
		spec corev1.PodSpec
		used bool
	}{
		"mounted":               {corev1.PodSpec{Containers: []corev1.Container{{}, mounts}}, true},
		"a device":              {corev1.PodSpec{Containers: []corev1.Container{device}}, true},
		"of an init container":  {corev1.PodSpec{InitContainers: []corev1.Container{mounts}, Containers: []corev1.Container{{}}}, true},
		"of a debugger":         {corev1.PodSpec{EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(mounts)}}}, true},
		"another is mounted":    {corev1.PodSpec{Containers: []corev1.Container{{VolumeMounts: []corev1.VolumeMount{{Name: "w"}}}}}, false},
		"no container has any":  {corev1.PodSpec{InitContainers: []corev1.Container{{}}, Containers: []corev1.Container{{}}}, false},
		"no containers to have": {corev1.PodSpec{}, false},
	} {
		test.spec.Volumes = []corev1.Volume{{Name: "v"}}
		if got := Used(&corev1.Pod{Spec: test.spec}); (len(got) == 1) != test.used {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestUnusedVolumesAreNotMade does not miss what a volume refers to before a container comes that wants it.
func TestUnusedVolumesAreNotMade(t *testing.T) {
	t.Parallel()
	m, o, _ := setup(t)
	p := podWith(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "late"}}})
	want := corev1.EphemeralContainerCommon(p.Spec.Containers[0])
	p.Spec.Containers[0].VolumeMounts = nil
	for what, do := range map[string]func() error{
		"make":    func() error { _, err := m.Setup(t.Context(), p, &corev1.PodStatus{}); return err },
		"refresh": func() error { return m.Refresh(t.Context(), p, &corev1.PodStatus{}) },
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if made, _ := filepath.Glob(filepath.Join(m.cfg.RootDir, "pods", "u", "*", "*")); len(made) > 0 {
		t.Errorf("made %v", made)
	}
	if places := m.Places(t.Context(), p); len(places) > 0 {
		t.Errorf("measured: %v", places)
	}

	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: want}}
	if _, err := m.Setup(t.Context(), p, &corev1.PodStatus{}); err == nil {
		t.Error("made of a ConfigMap that is not there")
	}
	o.configMaps["late"] = map[string]string{"a": "1"}
	made, err := m.Setup(t.Context(), p, &corev1.PodStatus{})
	if err != nil {
		t.Fatal(err)
	}
	if got := tree(t, made.Mounts["v"]); got != "a=1:644" {
		t.Errorf("the debugger has %s", got)
	}
}
