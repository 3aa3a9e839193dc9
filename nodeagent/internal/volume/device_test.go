package volume

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/csi"
)

func asBlock(v *corev1.PersistentVolume) {
	mode := corev1.PersistentVolumeBlock
	v.Spec.VolumeMode = &mode
}

func withDevice(p *corev1.Pod) *corev1.Pod {
	p.Spec.Containers = []corev1.Container{{Name: "main", VolumeDevices: []corev1.VolumeDevice{{Name: "v", DevicePath: "/dev/v"}}}}
	return p
}

// TestDevicesThatCannotBeHad holds the texts that people see, which are the kubelet's, and the reasons of their events.
func TestDevicesThatCannotBeHad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	debugged := podWith(claimed(false))
	debugged.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(withDevice(podWith(claimed(false))).Spec.Containers[0])}}
	prepared := withDevice(podWith(claimed(false)))
	prepared.Spec.InitContainers, prepared.Spec.Containers = prepared.Spec.Containers, nil
	const wait = "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: "
	const instead = wait + "volume v has volumeMode Filesystem, but is specified in volumeDevices"
	for name, test := range map[string]struct {
		pod          *corev1.Pod
		volume       *corev1.PersistentVolume
		reason, want string
	}{
		"mounted":            {podWith(claimed(false)), volumeOf("pv", local(file), asBlock), "FailedMount", wait + "volume v has volumeMode Block, but is specified in volumeMounts"},
		"a folder":           {withDevice(podWith(claimed(false))), volumeOf("pv", local(dir)), "FailedMount", instead},
		"of an init":         {prepared, volumeOf("pv", local(dir)), "FailedMount", instead},
		"of a debugger":      {debugged, volumeOf("pv", local(dir)), "FailedMount", instead},
		"nothing":            {withDevice(podWith(claimed(false))), volumeOf("pv", local("/nowhere"), asBlock), "FailedMapVolume", `MapVolume.EvalHostSymlinks failed for volume "pv" : lstat /nowhere: no such file or directory`},
		"a file":             {withDevice(podWith(claimed(false))), volumeOf("pv", local(file), asBlock), "FailedMapVolume", `MapVolume.MapBlockVolume failed for volume "pv" : ` + file + " is not a block device"},
		"a path of the node": {withDevice(podWith(claimed(false))), volumeOf("pv", corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}, asBlock), "FailedMapVolume", `MapVolume.SetUpDevice failed for volume "pv" : persistent volumes of type hostPath are no block devices on this node`},
	} {
		m, _, _ := setupClaim(t, boundClaim("pv"), test.volume)
		_, err := m.Setup(t.Context(), test.pod, &corev1.PodStatus{})
		if err == nil || err.Error() != test.want || Reason(err) != test.reason {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
		if users := m.Users("pv"); len(users) > 0 {
			t.Errorf("%s: used by %v", name, users)
		}
	}
}

// TestLocalDevice links a device into the pod's folder, where it is seen who has it, and takes away the link but nothing else when the pod goes.
func TestLocalDevice(t *testing.T) {
	t.Parallel()
	device := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(device, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, _, points := setupClaim(t, boundClaim("pv"), volumeOf("pv", local(device), asBlock, func(v *corev1.PersistentVolume) {
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	}))
	p := withDevice(podWith(claimed(false)))
	group := int64(2000)
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
	for range 2 { // a container starts again
		made, err := m.Setup(t.Context(), p, &corev1.PodStatus{})
		if err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(container.PodDir(m.cfg.RootDir, p), "volumeDevices", "kubernetes.io~local-volume", "pv")
		if made.Devices["v"] != link || len(made.Mounts) != 0 || len(points.points) != 0 {
			t.Errorf("made %v, mounted %v", made, points.points)
		}
		if to, err := os.Readlink(link); err != nil || to != device {
			t.Errorf("%s leads to %s, %v", link, to, err)
		}
	}
	if places := m.Places(t.Context(), p); len(places) != 1 || places[0].Device == "" || places[0].Disk != "" || places[0].Claim != "c" {
		t.Errorf("places %+v", places)
	}
	if users := m.Users("pv"); !slices.Equal(users, []types.UID{p.UID}) {
		t.Errorf("users %v", users)
	}
	second := withDevice(podWith(claimed(false)))
	second.UID = "second"
	_, err := m.Setup(t.Context(), second, &corev1.PodStatus{})
	if want := `MapVolume.SetUpDevice failed for volume "pv" : volume uses the ReadWriteOncePod access mode and is already in use by another pod`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := m.Cleanup(t.Context(), p.UID); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(device); string(data) != "data" || len(m.Users("pv")) != 0 {
		t.Errorf("after the pod: %q, %v", data, err)
	}
}

// TestDrivenDevice leads a claim to the driver, and what it returns to the containers as a device.
func TestDrivenDevice(t *testing.T) {
	t.Parallel()
	m, _, _ := setupClaim(t, boundClaim("pv"), volumeOf("pv", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}}, asBlock))
	d := m.cfg.Drivers.(*drivers)
	p := withDevice(podWith(claimed(true)))
	made, err := m.Setup(t.Context(), p, &corev1.PodStatus{})
	if err != nil || made.Devices["v"] != "/there/pv" || len(made.Mounts) != 0 || len(d.mounted) != 1 || !d.mounted[0].Block() || !d.mounted[0].ReadOnly {
		t.Errorf("%v, %v, asked for %+v", made, err, d.mounted)
	}
	d.refuse = &csi.Failure{Step: "MapVolume.MapPodDevice failed", Err: os.ErrPermission}
	if _, err := m.Setup(t.Context(), p, &corev1.PodStatus{}); err == nil || Reason(err) != "FailedMapVolume" || err.Error() != `MapVolume.MapPodDevice failed for volume "pv" : permission denied` {
		t.Errorf("%v", err)
	}
}
