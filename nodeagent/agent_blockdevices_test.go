package nodeagent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
)

// loopDevice is a block device of a size in bytes, until the test ends.
func loopDevice(t *testing.T, size int64) string {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk")
	file, err := os.Create(disk)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skipf("the kernel has no loop devices: %v", err)
	}
	said, err := exec.Command("losetup", "--find", "--show", disk).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	device := strings.TrimSpace(string(said))
	t.Cleanup(func() {
		if said, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, said)
		}
	})
	return device
}

// hasLocal makes a claim with a volume that is a device of the node.
func (n *node) hasLocal(name, device string, mode corev1.PersistentVolumeMode) {
	n.t.Helper()
	claims := object.For(n.client, object.PersistentVolumeClaim)
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	claim, err := claims.Create(n.t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: name, VolumeMode: &mode},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size}
	if _, err := claims.UpdateStatus(n.t.Context(), claim); err != nil {
		n.t.Fatal(err)
	}
	if _, err := object.For(n.client, object.PersistentVolume).Create(n.t.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: &mode,
		ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: name, UID: claim.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: device}},
	}}); err != nil {
		n.t.Fatal(err)
	}
}

// testDevices gives a block device of the node to containers of a pod, and to another that may only read it. What the control plane does is done by hand.
func (n *node) testDevices(t *testing.T) {
	n = n.in(t)
	device := loopDevice(t, 1<<20)
	n.hasLocal("raw", device, corev1.PersistentVolumeBlock)
	pod := func(name string, readOnly bool) *corev1.Pod {
		first, c := shell("printf prepared >/dev/raw"), shell("exec sleep 1000")
		first.Name = "first"
		c.VolumeDevices = []corev1.VolumeDevice{{Name: "raw", DevicePath: "/dev/raw"}}
		first.VolumeDevices = c.VolumeDevices
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{first}, Containers: []corev1.Container{c},
			Volumes: []corev1.Volume{{Name: "raw", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "raw", ReadOnly: readOnly}}}},
		}}
		if readOnly {
			p.Spec.InitContainers = nil
		}
		return p
	}
	n.create(pod("writes", false))
	first := n.await("writes", "ready", time.Minute, ready)
	if stdout, stderr, _ := n.run("writes", "head -c 8 /dev/raw; printf written >/dev/raw; test -b /dev/raw && echo device", ""); stdout != "prepareddevice\n" {
		t.Errorf("%s%s", stdout, stderr)
	}
	eventually(t, time.Minute, func() string {
		if summary := n.ask("/stats/summary"); !strings.Contains(summary, `"capacityBytes":1048576`) {
			return "the summary tells nothing of the device: " + summary
		}
		return ""
	})
	n.remove("writes")
	if _, err := os.Lstat(filepath.Join(n.dir, "pods", string(first.UID))); !os.IsNotExist(err) {
		t.Errorf("the pod's folder: %v", err)
	}
	n.create(pod("reads", true))
	n.await("reads", "ready", time.Minute, ready)
	if stdout, stderr, _ := n.run("reads", "head -c 7 /dev/raw; printf changed >/dev/raw", ""); stdout != "written" || !strings.Contains(stderr, "not permitted") {
		t.Errorf("%s%s", stdout, stderr)
	}
	n.remove("reads")

	wrong := pod("mounts", true)
	wrong.Spec.Containers[0].VolumeDevices, wrong.Spec.Containers[0].VolumeMounts = nil, []corev1.VolumeMount{{Name: "raw", MountPath: "/raw"}}
	n.create(wrong)
	n.hasEvent("mounts", "FailedMount: Unable to attach or mount volumes: unmounted volumes=[raw], unattached volumes=[], failed to process volumes=[raw]: volume raw has volumeMode Block, but is specified in volumeMounts")
	n.remove("mounts")
}

// testDisks makes a file system on a device of the node that has none, once, and gives it to pods one after the other and two at a time.
func (n *node) testDisks(t *testing.T) {
	n = n.in(t)
	for _, program := range []string{"blkid", "mkfs.ext4", "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatal(err) // hack/install.sh --test has them
		}
	}
	n.hasLocal("disk", loopDevice(t, 16<<20), corev1.PersistentVolumeFilesystem)
	pod := func(name string, readOnly bool) *corev1.Pod {
		c := shell("exec sleep 1000")
		c.VolumeMounts = []corev1.VolumeMount{{Name: "disk", MountPath: "/disk"}}
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{c}, SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To(int64(1000)), FSGroup: ptr.To(int64(2000))},
			Volumes: []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "disk", ReadOnly: readOnly}}}},
		}}
	}
	n.create(pod("first", false))
	n.await("first", "ready", time.Minute, ready)
	if stdout, stderr, _ := n.run("first", "echo kept >/disk/file && grep -c ' /disk ext4' /proc/mounts", ""); stdout != "1\n" {
		t.Errorf("%s%s", stdout, stderr)
	}
	n.remove("first")
	n.create(pod("second", false))
	n.await("second", "ready", time.Minute, ready)
	n.create(pod("third", true))
	n.await("third", "ready", time.Minute, ready)
	if stdout, stderr, _ := n.run("second", "cat /disk/file; echo changed >/disk/file", ""); stdout != "kept\n" {
		t.Errorf("%s%s", stdout, stderr)
	}
	if stdout, stderr, _ := n.run("third", "cat /disk/file; echo again >/disk/file", ""); stdout != "changed\n" || !strings.Contains(stderr, "Read-only file system") {
		t.Errorf("%s%s", stdout, stderr)
	}
	n.remove("second")
	n.remove("third")
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), "/dev/loop") {
		t.Errorf("mounts are left: %v\n%s", err, mounts)
	}
}
