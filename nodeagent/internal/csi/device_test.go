package csi

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// device is a volume that is a block device.
func device() *Want {
	w, block, group := wanted(), corev1.PersistentVolumeBlock, int64(2000)
	w.PV.Spec.VolumeMode = &block
	w.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
	w.Own = func(string, int64) error { return errors.New("a device has no files to give away") }
	return w
}

// TestDeviceOfAPod goes the whole way and back, over two lives of the agent and a start of the machine.
func TestDeviceOfAPod(t *testing.T) {
	t.Parallel()
	w, want := setup(t, stageCap), device()
	want.ReadOnly = true
	path, err := w.Mount(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	w.must(t, "stage publish")
	under := func(path string) string { return filepath.Join(w.cfg.Dir, path) }
	staging, target := under("plugins/kubernetes.io/csi/volumeDevices/staging/pv"), under("plugins/kubernetes.io/csi/volumeDevices/publish/pv/u")
	if w.stage.GetStagingTargetPath() != staging || w.publish.GetStagingTargetPath() != staging || w.publish.GetTargetPath() != target || !w.publish.GetReadonly() {
		t.Errorf("staged at %s, published %v", w.stage.GetStagingTargetPath(), w.publish)
	}
	if info, err := os.Stat(staging); err != nil || !info.IsDir() {
		t.Errorf("no folder to stage it in: %v", err)
	}
	if w.stage.GetVolumeCapability().GetBlock() == nil || w.publish.GetVolumeCapability().GetBlock() == nil || w.publish.GetVolumeCapability().GetMount() != nil {
		t.Errorf("capabilities %v, %v", w.stage.GetVolumeCapability(), w.publish.GetVolumeCapability())
	}
	if path != under("pods/u/volumeDevices/kubernetes.io~csi/pv") {
		t.Errorf("the pod has it at %s", path)
	}
	if to, err := os.Readlink(path); err != nil || to != target {
		t.Errorf("which leads to %s, %v", to, err)
	}
	second := device()
	second.Pod.UID = "u2"
	if _, err := w.Mount(t.Context(), second); err != nil {
		t.Error(err)
	}
	w.must(t, "publish")
	w.again()
	if again, err := w.Mount(t.Context(), want); err != nil || again != path {
		t.Errorf("in the next life: %s, %v", again, err)
	}
	w.must(t, "")
	if pods := w.Pods(); !slices.Equal(pods, []types.UID{"u", "u2"}) {
		t.Errorf("pods with volumes: %v", pods)
	}
	if err := w.Unmount(t.Context(), "u2"); err != nil {
		t.Error(err)
	}
	w.sweep(t.Context())
	w.must(t, "unpublish") // the other pod has it still
	for point := range w.mounts {
		w.set(point, false)
	}
	w.again()
	if _, err := w.Mount(t.Context(), want); err != nil {
		t.Error(err)
	}
	w.must(t, "stage publish")
	w.again()
	if err := w.Unmount(t.Context(), "u"); err != nil {
		t.Error(err)
	}
	w.sweep(t.Context())
	w.must(t, "unpublish unstage")
	if want := []string{"d unmap_volume true", "d unmap_volume true", "d unmap_device true"}; !slices.Equal(w.operated, want) {
		t.Errorf("measured: %q, not %q", w.operated, want)
	}
	for _, dir := range []string{"pods/u", "pods/u2", "plugins/kubernetes.io/csi/volumeDevices/pv", "plugins/kubernetes.io/csi/volumeDevices/publish/pv", "plugins/kubernetes.io/csi/volumeDevices/staging/pv"} {
		if _, err := os.Lstat(under(dir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
}

// TestDeviceInUse says of a device, too, that the node has it, until it has been taken back.
func TestDeviceInUse(t *testing.T) {
	t.Parallel()
	w, want := setup(t, stageCap), device()
	at := w.paths.staged(want)
	if err := (Data{Driver: "d", Handle: "h", Name: "pv", Attachment: "a", Called: true}).write(at.record); err != nil {
		t.Fatal(err)
	}
	if used := w.InUse(); len(used) != 1 || used[0] != "kubernetes.io/csi/d^h" {
		t.Errorf("in use: %v", used)
	}
	w.sweep(t.Context())
	w.must(t, "unstage")
	if used := w.InUse(); len(used) != 0 || w.changes != 1 {
		t.Errorf("in use: %v, told %d times", used, w.changes)
	}
}

// TestDeviceGrows has the driver make a device larger that a pod has.
func TestDeviceGrows(t *testing.T) {
	t.Parallel()
	w, want := setup(t, stageCap, expandCap), device()
	if _, err := w.Mount(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	w.must(t, "stage publish")
	want.PV.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("2Gi")
	if err := w.Renew(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	w.must(t, "expand")
	if w.expansion.GetVolumePath() != w.publish.GetTargetPath() || w.expansion.GetStagingTargetPath() != w.stage.GetStagingTargetPath() || w.expansion.GetVolumeCapability().GetBlock() == nil {
		t.Errorf("asked for %v", w.expansion)
	}
	if !slices.Equal(w.api.grown, []string{"c 2Gi"}) {
		t.Errorf("told %v", w.api.grown)
	}
}

// TestDeviceFails names the step, and takes back what may have been made.
func TestDeviceFails(t *testing.T) {
	t.Parallel()
	no := status.Error(codes.Internal, "no")
	for name, test := range map[string]struct {
		spoil func(*world, *Want)
		says  string
		undo  string
	}{
		"to be staged":    {func(w *world, _ *Want) { w.refuse["stage"] = no }, "MapVolume.SetUpDevice failed: rpc error: code = Internal desc = no", "unstage"},
		"to be published": {func(w *world, _ *Want) { w.refuse["publish"] = no }, "MapVolume.MapPodDevice failed: rpc error: code = Internal desc = no", "unpublish unstage"},
		"to be there":     {func(w *world, _ *Want) { w.empty = true }, "MapVolume.MapPodDevice failed: the driver left no block device at ", "unpublish unstage"},
		"to be one pod's alone": {func(w *world, want *Want) {
			other := device()
			other.Pod.UID = "other"
			if _, err := w.Mount(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			if err := w.Unmount(t.Context(), "u"); err != nil {
				t.Fatal(err)
			}
			want.PV.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		}, "MapVolume.SetUpDevice failed: volume uses the ReadWriteOncePod access mode and is already in use by another pod", ""},
	} {
		w, want := setup(t, stageCap), device()
		test.spoil(w, want)
		_, err := w.Mount(t.Context(), want)
		if err == nil || len(err.Error()) < len(test.says) || err.Error()[:len(test.says)] != test.says {
			t.Errorf("%s: %v, want %s", name, err, test.says)
		}
		w.heard()
		if err := w.Unmount(t.Context(), "u"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		w.sweep(t.Context())
		w.must(t, test.undo)
	}
}

// TestWhatIsADevice tells block devices from what is none.
func TestWhatIsADevice(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/dev/null", "/etc/hosts", "/etc", "/nowhere/at/all"} {
		if is, err := Device(path); err != nil || is {
			t.Errorf("%s: %v, %v", path, is, err)
		}
	}
}
