package nodeagent_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
)

const hostPathDriver = "hostpath.csi.k8s.io"

// csiPrograms names the folder with hostpathplugin and csi-node-driver-registrar, built from their repositories.
const csiPrograms = "HOWDAH_TEST_CSI"

// background runs a program until the test ends, or end is called.
func background(t *testing.T, path string, args ...string) (end func()) {
	t.Helper()
	cmd := exec.Command(path, args...)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	end = func() {
		_ = cmd.Process.Signal(unix.SIGTERM) // with which the registrar takes its socket away
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	t.Cleanup(func() {
		end()
		if said, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(path), said)
		}
	})
	return end
}

// TestRealNodeWithCSI runs csi-driver-host-path and its registrar, unmodified, beside a node: a volume is attached, mounted, kept over a restart of the
// agent, grown, given to another pod and taken back. What the control plane and the other sidecars do is done by hand.
func TestRealNodeWithCSI(t *testing.T) {
	programs := os.Getenv(csiPrograms)
	if programs == "" {
		t.Skipf("%s names no folder with hostpathplugin and csi-node-driver-registrar", csiPrograms)
	}
	if !isolated(t) {
		return
	}
	n := startNode(t)
	kubelet := filepath.Join(n.dir, "kubelet")
	socket := filepath.Join(kubelet, "plugins", "csi-hostpath", "csi.sock")
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		t.Fatal(err)
	}
	background(t, filepath.Join(programs, "hostpathplugin"), "--endpoint=unix://"+socket, "--nodeid="+nodeName, "--statedir="+filepath.Join(n.dir, "csi-data"), "--enable-attach", "--v=5")
	endRegistrar := background(t, filepath.Join(programs, "csi-node-driver-registrar"), "--csi-address="+socket, "--kubelet-registration-path="+socket,
		"--plugin-registration-path="+filepath.Join(kubelet, "plugins_registry"), "--timeout=20s")
	n.hasDriver(true)

	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	controller := csipb.NewControllerClient(conn)
	created, err := controller.CreateVolume(t.Context(), &csipb.CreateVolumeRequest{
		Name: "test", CapacityRange: &csipb.CapacityRange{RequiredBytes: 1 << 20}, VolumeCapabilities: []*csipb.VolumeCapability{mounted},
	})
	if err != nil {
		t.Fatal(err)
	}
	handle := created.GetVolume().GetVolumeId()
	n.tellOfDriver()
	n.bound("driven", created.GetVolume())

	pod := func(name string, source corev1.VolumeSource) *corev1.Pod {
		c := shell("exec sleep 1000")
		c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		user, group := int64(1000), int64(2000)
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{c}, SecurityContext: &corev1.PodSecurityContext{RunAsUser: &user, FSGroup: &group},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: source}},
		}}
	}
	claim := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "driven"}}
	n.create(pod("first", claim))
	n.attach(controller, "driven", handle, mounted)
	n.await("first", "ready", 60*time.Second, ready)
	if stdout, stderr, _ := n.run("first", "echo kept >/data/file && stat -c %g /data", ""); strings.TrimSpace(stdout) != "2000" {
		t.Errorf("%q, %q", stdout, stderr)
	}
	n.stop()
	n.startAgent()
	if _, err := controller.ControllerExpandVolume(t.Context(), &csipb.ControllerExpandVolumeRequest{
		VolumeId: handle, CapacityRange: &csipb.CapacityRange{RequiredBytes: 2 << 20}, VolumeCapability: mounted,
	}); err != nil {
		t.Fatal(err)
	}
	n.grow("driven", "2Mi")
	n.remove("first")
	n.uses(0)
	n.create(pod("second", claim))
	n.await("second", "ready", 60*time.Second, ready)
	if stdout, stderr, _ := n.run("second", "cat /data/file", ""); stdout != "kept\n" {
		t.Errorf("the second pod finds %q, %q", stdout, stderr)
	}
	n.create(pod("inline", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: hostPathDriver}}))
	n.await("inline", "ready", 60*time.Second, ready)
	if stdout, stderr, _ := n.run("inline", "echo x >/data/file && ls /data", ""); stdout != "file\n" {
		t.Errorf("the volume of its own has %q, %q", stdout, stderr)
	}
	n.remove("inline")
	n.remove("second")
	n.uses(0)
	n.testDrivenDevice(controller)
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), "kubernetes.io~csi") || strings.Contains(string(mounts), "globalmount") || strings.Contains(string(mounts), "volumeDevices") {
		t.Errorf("mounts are left: %v\n%s", err, mounts)
	}
	endRegistrar()
	n.hasDriver(false)
}

// testDrivenDevice has the driver make a block device, which is a loop device: it is written, kept over a restart of the agent, grown and taken back.
func (n *node) testDrivenDevice(controller csipb.ControllerClient) {
	t := n.t
	if said, err := exec.Command("losetup", "--find").CombinedOutput(); err != nil {
		t.Logf("no loop device can be had here: %v: %s", err, said)
		return
	}
	created, err := controller.CreateVolume(t.Context(), &csipb.CreateVolumeRequest{
		Name: "raw", CapacityRange: &csipb.CapacityRange{RequiredBytes: 1 << 20}, VolumeCapabilities: []*csipb.VolumeCapability{asDevice},
	})
	if err != nil {
		t.Fatal(err)
	}
	handle := created.GetVolume().GetVolumeId()
	n.bound("raw", created.GetVolume(), func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) })
	c := shell("exec sleep 1000")
	c.VolumeDevices = []corev1.VolumeDevice{{Name: "raw", DevicePath: "/dev/raw"}}
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "raw"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{c},
		Volumes:    []corev1.Volume{{Name: "raw", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "raw"}}}},
	}})
	n.attach(controller, "raw", handle, asDevice)
	pod := n.await("raw", "ready", 60*time.Second, ready)
	if stdout, stderr, _ := n.run("raw", "printf kept >/dev/raw && head -c 4 /dev/raw && test -b /dev/raw && echo device", ""); stdout != "keptdevice\n" {
		t.Errorf("%q, %q", stdout, stderr)
	}
	n.stop()
	n.startAgent()
	if _, err := controller.ControllerExpandVolume(t.Context(), &csipb.ControllerExpandVolumeRequest{
		VolumeId: handle, CapacityRange: &csipb.CapacityRange{RequiredBytes: 2 << 20}, VolumeCapability: asDevice,
	}); err != nil {
		t.Fatal(err)
	}
	n.grow("raw", "2Mi")
	n.remove("raw")
	n.uses(0)
	kubelet := filepath.Join(n.dir, "kubelet")
	for _, dir := range []string{filepath.Join("pods", string(pod.UID)), "plugins/kubernetes.io/csi/volumeDevices/raw", "plugins/kubernetes.io/csi/volumeDevices/publish/raw", "plugins/kubernetes.io/csi/volumeDevices/staging/raw"} {
		if _, err := os.Lstat(filepath.Join(kubelet, dir)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
	if _, err := controller.ControllerUnpublishVolume(t.Context(), &csipb.ControllerUnpublishVolumeRequest{VolumeId: handle, NodeId: nodeName}); err != nil {
		t.Error(err)
	}
	if _, err := controller.DeleteVolume(t.Context(), &csipb.DeleteVolumeRequest{VolumeId: handle}); err != nil { // with which its loop device goes
		t.Error(err)
	}
}

// mounted and asDevice are how the volumes of the test are used.
var (
	writer  = &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}
	mounted = &csipb.VolumeCapability{
		AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{}}, AccessMode: writer,
	}
	asDevice = &csipb.VolumeCapability{
		AccessType: &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}}, AccessMode: writer,
	}
)

// hasDriver waits until the API knows of the driver on the node, or does not.
func (n *node) hasDriver(want bool) {
	n.t.Helper()
	eventually(n.t, time.Minute, func() string {
		said, err := object.For(n.client, object.CSINode).Get(n.t.Context(), "", nodeName)
		if err != nil {
			return err.Error()
		}
		if has := len(said.Spec.Drivers) == 1 && said.Spec.Drivers[0].Name == hostPathDriver && said.Spec.Drivers[0].NodeID == nodeName; has != want {
			return "the CSINode says " + said.Spec.String()
		}
		return ""
	})
}

// tellOfDriver makes the driver's CSIDriver.
func (n *node) tellOfDriver() {
	n.t.Helper()
	file := storagev1.FileFSGroupPolicy
	_, err := object.For(n.client, object.CSIDriver).Create(n.t.Context(), &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: hostPathDriver}, Spec: storagev1.CSIDriverSpec{
		AttachRequired: ptr.To(true), PodInfoOnMount: ptr.To(true), FSGroupPolicy: &file,
		VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral},
	}})
	if err != nil {
		n.t.Fatal(err)
	}
}

// bound makes a claim with a volume of the driver's.
func (n *node) bound(name string, made *csipb.Volume, change ...func(*corev1.PersistentVolume)) {
	n.t.Helper()
	must := func(err error) {
		n.t.Helper()
		if err != nil {
			n.t.Fatal(err)
		}
	}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	claim, err := object.For(n.client, object.PersistentVolumeClaim).Create(n.t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: name},
	})
	must(err)
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size}
	_, err = object.For(n.client, object.PersistentVolumeClaim).UpdateStatus(n.t.Context(), claim)
	must(err)
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: name, UID: claim.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: hostPathDriver, VolumeHandle: made.GetVolumeId(), VolumeAttributes: made.GetVolumeContext()}},
	}}
	for _, f := range change {
		f(v)
	}
	_, err = object.For(n.client, object.PersistentVolume).Create(n.t.Context(), v)
	must(err)
}

// uses waits until the node says of so many volumes that they are in use.
func (n *node) uses(count int) {
	n.t.Helper()
	eventually(n.t, time.Minute, func() string {
		node, err := object.For(n.client, object.Node).Get(n.t.Context(), "", nodeName)
		if err != nil {
			return err.Error()
		}
		if len(node.Status.VolumesInUse) != count {
			return fmt.Sprintf("in use: %v", node.Status.VolumesInUse)
		}
		return ""
	})
}

// attach does what the controller and the attacher do, once the node says that it is about to use the volume.
func (n *node) attach(controller csipb.ControllerClient, volume, handle string, how *csipb.VolumeCapability) {
	n.t.Helper()
	n.uses(1)
	answer, err := controller.ControllerPublishVolume(n.t.Context(), &csipb.ControllerPublishVolumeRequest{VolumeId: handle, NodeId: nodeName, VolumeCapability: how})
	if err != nil {
		n.t.Fatal(err)
	}
	made, err := object.For(n.client, object.VolumeAttachment).Create(n.t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: object.AttachmentName(handle, hostPathDriver, nodeName)},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: hostPathDriver, NodeName: nodeName, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To(volume)}},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	made.Status.Attached, made.Status.AttachmentMetadata = true, answer.GetPublishContext()
	if _, err := object.For(n.client, object.VolumeAttachment).UpdateStatus(n.t.Context(), made); err != nil {
		n.t.Fatal(err)
	}
	eventually(n.t, time.Minute, func() string { // the agent writes, too
		node, err := object.For(n.client, object.Node).Get(n.t.Context(), "", nodeName)
		if err == nil {
			node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: object.AttachableName(hostPathDriver, handle)}}
			_, err = object.For(n.client, object.Node).UpdateStatus(n.t.Context(), node)
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// grow makes the volume larger, as a resizer does, and waits until the claim is told that its file system is.
func (n *node) grow(volume, size string) {
	n.t.Helper()
	v, err := object.For(n.client, object.PersistentVolume).Get(n.t.Context(), "", volume)
	if err != nil {
		n.t.Fatal(err)
	}
	v.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse(size)
	if _, err := object.For(n.client, object.PersistentVolume).Update(n.t.Context(), v); err != nil {
		n.t.Fatal(err)
	}
	eventually(n.t, time.Minute, func() string {
		claim, err := object.For(n.client, object.PersistentVolumeClaim).Get(n.t.Context(), "default", volume)
		if err != nil {
			return err.Error()
		}
		if has := claim.Status.Capacity[corev1.ResourceStorage]; has.String() != size {
			return "the claim has " + has.String()
		}
		return ""
	})
}
