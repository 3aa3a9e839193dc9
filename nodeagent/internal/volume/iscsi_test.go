package volume

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"howdah.dev/nodeagent/internal/iscsi"
	"howdah.dev/nodeagent/internal/iscsi/iscsitest"
	"howdah.dev/nodeagent/internal/pause"

	clocktesting "k8s.io/utils/clock/testing"
)

const (
	target   = "iqn.2001-04.com.example:storage.disk1"
	portal   = "192.0.2.7:3260"
	nodeArgs = "iscsiadm -m node -p " + portal + " -T " + target + " -I default"
)

// logsIn and formats are what is run for the first pod, and logsOut what is when the last has gone.
var (
	logsIn = []string{
		"iscsiadm -m discoverydb -t sendtargets -p " + portal + " -I default -o new", "iscsiadm -m discoverydb -t sendtargets -p " + portal + " -I default --discover",
		nodeArgs + " -o update -n node.startup -v manual", nodeArgs + " -o update -n node.session.scan -v manual", nodeArgs + " --login", "echo 0 0 0 >/class/scsi_host/host1/scan",
	}
	formats = []string{"blkid -p -s TYPE -s PTTYPE -o export /dev/sda", "mkfs.ext4 -F -m0 /dev/sda", "mount -t ext4 /dev/sda GLOBAL"}
	logsOut = []string{"echo 1 >/block/sda/device/delete", nodeArgs + " --logout", nodeArgs + " -o delete"}
)

// initiator is a node with iSCSI, and the objects of its API.
type initiator struct {
	*iscsitest.Node
	m       *Manager
	objects *objects
	kernel  *mounter
}

func setupISCSI(t *testing.T, volumes ...*corev1.PersistentVolume) *initiator {
	t.Helper()
	n := &initiator{Node: iscsitest.New(t)}
	n.m, n.objects, n.kernel = setupClaim(t, boundClaim("pv"), nil)
	for _, v := range volumes {
		n.objects.volumes[v.Name] = v
	}
	n.Mounted = func(dir string) { n.kernel.points = append(n.kernel.points, dir) }
	n.plug(n.m)
	return n
}

func (n *initiator) plug(m *Manager) {
	m.cfg.Command, m.cfg.ISCSI = n.Run, n.Initiator()
	m.cfg.Device = func(path string) (bool, error) {
		to, err := filepath.EvalSymlinks(path)
		return err == nil && strings.HasPrefix(to, n.Dev+"/sd"), nil
	}
}

// restart has another life of the agent look after the same node.
func (n *initiator) restart() {
	n.m = New(n.m.cfg)
	n.plug(n.m)
}

// ran is what was run, with the names of the places.
func (n *initiator) ran() []string {
	out := n.Ran()
	for i := range out {
		if at := strings.Index(out[i], n.m.records.Dir); at >= 0 {
			out[i] = out[i][:at] + "GLOBAL"
		}
	}
	return out
}

func (n *initiator) runs(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := n.ran(); !slices.Equal(got, want) {
		t.Errorf("%s: ran\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (n *initiator) setup(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	made, err := n.m.Setup(t.Context(), p, &corev1.PodStatus{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Mounts["v"] + made.Devices["v"]
}

func (n *initiator) cleanup(t *testing.T, uid types.UID) {
	t.Helper()
	if err := n.m.Cleanup(t.Context(), uid); err != nil {
		t.Error(err)
	}
}

// bare says what is left of iSCSI on the node.
func (n *initiator) bare(t *testing.T) {
	t.Helper()
	if len(n.Sessions()) > 0 || len(n.Devices()) > 0 || len(n.kernel.points) > 0 {
		t.Errorf("left: sessions %v, devices %v, mounts %v", n.Sessions(), n.Devices(), n.kernel.points)
	}
	if files, _ := filepath.Glob(filepath.Join(n.m.records.Dir, "*")); len(files) > 0 {
		t.Errorf("left: %v", files)
	}
}

func iscsiPod(uid types.UID, change func(*corev1.ISCSIVolumeSource)) *corev1.Pod {
	s := &corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.7", IQN: target, ISCSIInterface: "default"}
	if change != nil {
		change(s)
	}
	p := podWith(corev1.VolumeSource{ISCSI: s})
	p.UID = uid
	return p
}

func iscsiVolume(change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := volumeOf("pv", corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: "192.0.2.7", IQN: target}})
	if change != nil {
		change(v)
	}
	return v
}

// TestISCSIIsSharedByPods logs in and mounts once for the node, binds that for each pod, and takes it all back with the last.
func TestISCSIIsSharedByPods(t *testing.T) {
	t.Parallel()
	n := setupISCSI(t)
	a, b := iscsiPod("a", nil), iscsiPod("b", nil)
	if got, want := n.setup(t, a), filepath.Join(n.m.cfg.RootDir, "pods", "a", "volumes", "kubernetes.io~iscsi", "v"); got != want {
		t.Errorf("mounted at %s, want %s", got, want)
	}
	n.runs(t, "the first pod", append(slices.Clone(logsIn), formats...)...)
	at := n.setup(t, b)
	n.setup(t, a) // a container starts again
	n.runs(t, "the second pod")
	global := filepath.Join(n.m.records.Dir, "iface-default", portal+"-"+target+"-lun-0", "globalmount")
	if want := []string{global, filepath.Join(n.m.cfg.RootDir, "pods", "a", "volumes", iscsiKind, "v"), at}; !slices.Equal(n.kernel.points, want) {
		t.Errorf("mounts %v, want %v", n.kernel.points, want)
	}
	if places := n.m.Places(t.Context(), a); len(places) != 1 || places[0].Disk == "" {
		t.Errorf("places %+v", places)
	}
	n.cleanup(t, "a")
	n.m.sweep(t.Context())
	n.runs(t, "the first pod goes")
	if len(n.kernel.points) != 2 {
		t.Errorf("mounts %v", n.kernel.points)
	}
	n.cleanup(t, "b")
	n.m.sweep(t.Context())
	n.runs(t, "the last pod goes", logsOut...)
	n.bare(t)
}

// TestISCSILogsOutOfATargetWithItsLastDisk keeps the login while another disk of the target is in use, and whoever is last ends it.
func TestISCSILogsOutOfATargetWithItsLastDisk(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]types.UID{"the first first": {"a", "b"}, "the second first": {"b", "a"}} {
		n := setupISCSI(t)
		n.Units = []int{0, 1}
		n.setup(t, iscsiPod("a", nil))
		n.setup(t, iscsiPod("b", func(s *corev1.ISCSIVolumeSource) { s.Lun = 1 }))
		if got := n.Sessions(); !slices.Equal(got, []string{portal + " default"}) {
			t.Errorf("%s: sessions %v", name, got)
		}
		n.cleanup(t, order[0])
		n.m.sweep(t.Context())
		if len(n.Sessions()) != 1 || len(n.Devices()) != 1 {
			t.Errorf("%s: sessions %v, devices %v while a disk is in use", name, n.Sessions(), n.Devices())
		}
		n.cleanup(t, order[1])
		n.m.sweep(t.Context())
		n.bare(t)
	}
}

// TestISCSISurvivesTheAgent touches nothing of what runs, and takes back what pods have left that are gone, whether their folders are there or not.
func TestISCSISurvivesTheAgent(t *testing.T) {
	t.Parallel()
	n := setupISCSI(t)
	n.Units = []int{0, 1}
	p := iscsiPod("a", nil)
	n.setup(t, p)
	n.setup(t, iscsiPod("gone", func(s *corev1.ISCSIVolumeSource) { s.Lun = 1 }))
	n.kernel.points = slices.DeleteFunc(n.kernel.points, func(point string) bool { return strings.Contains(point, "/pods/gone/") })
	if err := os.RemoveAll(filepath.Join(n.m.cfg.RootDir, "pods", "gone")); err != nil {
		t.Fatal(err)
	}
	n.ran()
	n.restart()
	if !n.m.Orphans(t.Context(), func(uid types.UID) bool { return uid == "a" }) {
		t.Error("orphans are left")
	}
	n.m.sweep(t.Context())
	n.setup(t, p)
	n.runs(t, "after a restart", "echo 1 >/block/sdb/device/delete")
	if len(n.kernel.points) != 2 || len(n.Sessions()) != 1 {
		t.Errorf("mounts %v, sessions %v", n.kernel.points, n.Sessions())
	}
	// The agent's end between two steps of the way: nothing is mounted, and the login is known to be the node's own.
	n.kernel.points = nil
	n.restart()
	n.setup(t, p)
	n.runs(t, "begun anew", "echo 0 0 0 >/class/scsi_host/host1/scan", "blkid -p -s TYPE -s PTTYPE -o export /dev/sda", "fsck -a /dev/sda", "mount -t ext4 /dev/sda GLOBAL")
	n.cleanup(t, "a")
	n.restart()
	n.m.sweep(t.Context())
	n.bare(t)
}

// TestISCSIOfPersistentVolumes has what a volume and its claim say: options, file system, portals, and the secret of another namespace.
func TestISCSIOfPersistentVolumes(t *testing.T) {
	t.Parallel()
	n := setupISCSI(t, iscsiVolume(func(v *corev1.PersistentVolume) {
		v.Spec.MountOptions = []string{"noatime"}
		s := v.Spec.ISCSI
		s.FSType, s.Portals, s.SessionCHAPAuth, s.SecretRef = "xfs", []string{"192.0.2.8"}, true, &corev1.SecretReference{Name: "chap", Namespace: "storage"}
	}))
	n.Down[portal] = true
	n.objects.secrets = map[string]map[string][]byte{"storage/chap": {"node.session.auth.username": []byte("user"), "node.session.auth.password": []byte("hush")}}
	p := podWith(claimed(false))
	if got, want := n.setup(t, p), filepath.Join(n.m.cfg.RootDir, "pods", "u", "volumes", iscsiKind, "pv"); got != want {
		t.Errorf("mounted at %s, want %s", got, want)
	}
	ran := n.ran()
	for _, want := range []string{
		"iscsiadm -m node -p 192.0.2.8:3260 -T " + target + " -I default -o update -n node.session.auth.password -v hush", "mkfs.xfs -f /dev/sda", "mount -t xfs -o noatime /dev/sda GLOBAL",
	} {
		if !slices.Contains(ran, want) {
			t.Errorf("%s was not run, but\n%s", want, strings.Join(ran, "\n"))
		}
	}
	files, _ := filepath.Glob(filepath.Join(n.m.records.Dir, "*", "*", "iscsi.json"))
	if len(files) != 1 {
		t.Fatalf("records %v", files)
	}
	if data, err := os.ReadFile(files[0]); err != nil || strings.Contains(string(data), "hush") {
		t.Errorf("the record says %s, %v", data, err)
	}
	if places := n.m.Places(t.Context(), p); len(places) != 1 || places[0].Disk == "" || places[0].Claim != "c" {
		t.Errorf("places %+v", places)
	}
	n.cleanup(t, "u")
	n.m.sweep(t.Context())
	n.bare(t)
}

// TestISCSIThatCannotBeMounted holds the steps that events name. No secret is in what they say.
func TestISCSIThatCannotBeMounted(t *testing.T) {
	t.Parallel()
	withCHAP := func(s *corev1.ISCSIVolumeSource) {
		s.SessionCHAPAuth, s.SecretRef = true, &corev1.LocalObjectReference{Name: "chap"}
	}
	for name, test := range map[string]struct {
		source func(*corev1.ISCSIVolumeSource)
		refuse string
		code   int
		want   string
	}{
		"no secret": {func(s *corev1.ISCSIVolumeSource) { withCHAP(s); s.SecretRef.Name = "none" }, "", 0, `WaitForAttach failed for volume "v" : get secret ns/none: secret "none" not found`},
		"nameless":  {func(s *corev1.ISCSIVolumeSource) { s.SessionCHAPAuth = true }, "", 0, `WaitForAttach failed for volume "v" : CHAP is asked for, and no secret is named`},
		"password":  {withCHAP, "hush", 7, `WaitForAttach failed for volume "v" : set node.session.auth.password for ` + target + `: iscsiadm ended with 7`},
		"login":     {withCHAP, "--login", 24, `WaitForAttach failed for volume "v" : log in to ` + target + ` at ` + portal + `: iscsiadm ended with 24: refused: ` + nodeArgs + ` --login`},
		"mount":     {nil, "mount -t", 32, `MountDevice failed for volume "v" : mount -t ext4 `},
		"a path":    {func(s *corev1.ISCSIVolumeSource) { s.IQN = "iqn.2001-04.x:/../y" }, "", 0, `WaitForAttach failed for volume "v" : iqn "iqn.2001-04.x:/../y" is no iSCSI name`},
	} {
		n := setupISCSI(t)
		n.objects.secrets = map[string]map[string][]byte{"ns/chap": {"node.session.auth.username": []byte("user"), "node.session.auth.password": []byte("hush")}}
		if test.refuse != "" {
			n.Refuse[test.refuse] = test.code
		}
		_, err := n.m.Setup(t.Context(), iscsiPod("a", test.source), &corev1.PodStatus{})
		if err == nil || !strings.HasPrefix(err.Error(), "MountVolume."+test.want) || strings.Contains(err.Error(), "hush") || Reason(err) != "FailedMount" {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
		if points := slices.Clone(n.kernel.points); len(points) > 0 {
			t.Errorf("%s: mounts %v", name, points)
		}
		n.Refuse = map[string]int{}
		n.cleanup(t, "a")
		n.m.sweep(t.Context())
		n.bare(t)
	}
}

// TestISCSIToRead is mounted to be read and never formatted, until somebody writes to it.
func TestISCSIToRead(t *testing.T) {
	t.Parallel()
	for name, readers := range map[string]struct {
		volume *corev1.PersistentVolume
		pod    *corev1.Pod
	}{
		"the pod":    {nil, iscsiPod("a", func(s *corev1.ISCSIVolumeSource) { s.ReadOnly = true })},
		"the claim":  {iscsiVolume(nil), podWith(claimed(true))},
		"the volume": {iscsiVolume(func(v *corev1.PersistentVolume) { v.Spec.ISCSI.ReadOnly = true }), podWith(claimed(false))},
	} {
		n := setupISCSI(t)
		if readers.volume != nil {
			n.objects.volumes["pv"] = readers.volume
		}
		group := int64(os.Getgid())
		readers.pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
		_, err := n.m.Setup(t.Context(), readers.pod, &corev1.PodStatus{})
		if err == nil || !strings.Contains(err.Error(), "MountDevice failed") || !strings.HasSuffix(err.Error(), "/sda as it is in read-only mode") || len(n.Formatted) > 0 {
			t.Errorf("%s: %v, formatted %v", name, err, n.Formatted)
		}
		n.Formatted["sda"] = true
		n.ran()
		n.setup(t, readers.pod)
		n.runs(t, name, "echo 0 0 0 >/class/scsi_host/host1/scan", "blkid -p -s TYPE -s PTTYPE -o export /dev/sda", "mount -t ext4 -o ro /dev/sda GLOBAL")
		if info, err := os.Stat(n.kernel.points[0]); err != nil || info.Mode()&os.ModeSetgid != 0 {
			t.Errorf("%s: the group gets what is to be read: %v, %v", name, info, err)
		}
	}
	n := setupISCSI(t)
	n.Formatted["sda"] = true
	reader, writer := iscsiPod("a", func(s *corev1.ISCSIVolumeSource) { s.ReadOnly = true }), iscsiPod("b", nil)
	n.setup(t, reader)
	n.ran()
	n.setup(t, writer)
	n.runs(t, "a writer", "mount -o remount,rw GLOBAL")
	n.setup(t, iscsiPod("c", nil))
	n.runs(t, "another writer")
}

// TestISCSIBelongsToTheGroup gives a volume to the pod's group, as its policy says.
func TestISCSIBelongsToTheGroup(t *testing.T) {
	t.Parallel()
	n := setupISCSI(t)
	p, group := iscsiPod("a", nil), int64(os.Getgid())
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
	n.setup(t, p)
	if info, err := os.Stat(n.kernel.points[0]); err != nil || info.Mode()&os.ModeSetgid == 0 || info.Mode().Perm()&0o070 != 0o070 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestISCSIDevice links the disk into the pod's folder, anew where the machine has started anew and the name is another disk's, and formats nothing.
func TestISCSIDevice(t *testing.T) {
	t.Parallel()
	n := setupISCSI(t, iscsiVolume(asBlock))
	p := withDevice(podWith(claimed(false)))
	link := filepath.Join(n.m.cfg.RootDir, "pods", "u", "volumeDevices", "kubernetes.io~iscsi", "pv")
	if got := n.setup(t, p); got != link {
		t.Errorf("linked at %s, want %s", got, link)
	}
	if to, err := os.Readlink(link); err != nil || to != filepath.Join(n.Dev, "sda") {
		t.Errorf("leads to %s, %v", to, err)
	}
	n.runs(t, "first", logsIn...)
	n.restart()
	n.setup(t, p)
	n.runs(t, "a container starts again")
	if places := n.m.Places(t.Context(), p); len(places) != 1 || places[0].Device != link || places[0].Disk != "" {
		t.Errorf("places %+v", places)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/another", link); err != nil {
		t.Fatal(err)
	}
	n.setup(t, p)
	if to, err := os.Readlink(link); err != nil || to != filepath.Join(n.Dev, "sda") {
		t.Errorf("after a start of the machine: leads to %s, %v", to, err)
	}
	n.ran()
	n.cleanup(t, "u")
	n.m.sweep(t.Context())
	n.runs(t, "goes", logsOut...)
	n.bare(t)
	n.Down[portal] = true
	if _, err := n.m.Setup(t.Context(), p, &corev1.PodStatus{}); err == nil || Reason(err) != "FailedMapVolume" || !strings.HasPrefix(err.Error(), `MapVolume.WaitForAttach failed for volume "pv" : discover the targets at `) {
		t.Errorf("%v", err)
	}
}

// TestISCSIOfOnePod gives a volume that is one pod's to one pod, and lets no other way lead to a disk that is in use.
func TestISCSIOfOnePod(t *testing.T) {
	t.Parallel()
	n := setupISCSI(t, iscsiVolume(func(v *corev1.PersistentVolume) {
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	}))
	n.setup(t, podWith(claimed(false)))
	second := podWith(claimed(false))
	second.UID = "second"
	other := iscsiPod("other", func(s *corev1.ISCSIVolumeSource) { s.InitiatorName = ptr.To("iqn.2024-01.com.example:me") })
	for want, p := range map[string]*corev1.Pod{
		`MountVolume.WaitForAttach failed for volume "pv" : volume uses the ReadWriteOncePod access mode and is already in use by another pod`:                               second,
		`MountVolume.WaitForAttach failed for volume "v" : logical unit 0 of ` + target + ` is in use on this node by way of the interface default and the portal ` + portal: other,
	} {
		if _, err := n.m.Setup(t.Context(), p, &corev1.PodStatus{}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	n.cleanup(t, "u")
	n.m.sweep(t.Context())
	n.setup(t, second)
}

// TestISCSIThatIsStillInUse is not logged out of, and is tried again after a pause; the pod goes meanwhile. What cannot be read keeps all others.
func TestISCSIThatIsStillInUse(t *testing.T) {
	t.Parallel()
	n := setupISCSI(t)
	n.setup(t, iscsiPod("a", nil))
	n.ran()
	n.InUse["sda"] = true
	n.cleanup(t, "a")
	if next := n.m.sweep(t.Context()); next != pause.First {
		t.Errorf("looks again after %s", next)
	}
	n.m.sweep(t.Context())
	n.runs(t, "in use")
	n.InUse = map[string]bool{}
	clk := n.m.cfg.Clock.(*clocktesting.FakeClock)
	clk.Step(pause.First)
	bad := filepath.Join(n.m.records.Dir, "iface-x", "y", "iscsi.json")
	if err := os.MkdirAll(filepath.Dir(bad), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bad, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.m.sweep(t.Context())
	n.runs(t, "what is in use is not known")
	if err := os.RemoveAll(filepath.Dir(filepath.Dir(bad))); err != nil {
		t.Fatal(err)
	}
	clk.Step(2 * pause.First)
	if next := n.m.sweep(t.Context()); next != sweepEvery {
		t.Errorf("looks again after %s", next)
	}
	n.runs(t, "in use no more", logsOut...)
	n.bare(t)
}

// TestISCSIIsReleasedByPodsThatHaveEnded takes the disk from a pod that stays in the API, with the mounts of parts of it, so that others may have it.
func TestISCSIIsReleasedByPodsThatHaveEnded(t *testing.T) {
	t.Parallel()
	n := setupISCSI(t)
	p := iscsiPod("a", nil)
	if _, err := n.m.SubPath(p, "main", n.setup(t, p), "sub/folder"); err != nil {
		t.Fatal(err)
	}
	if err := n.m.Release(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	clk := n.m.cfg.Clock.(*clocktesting.FakeClock)
	go func() { done <- n.m.Run(ctx) }()
	for !clk.HasWaiters() { // it has looked, and waits
		select {
		case err := <-done:
			t.Fatal(err)
		default:
		}
	}
	stop()
	<-done
	n.bare(t)
}

// TestISCSIPodsBeginTogether logs in once and makes one file system for pods that begin at the same time.
func TestISCSIPodsBeginTogether(t *testing.T) {
	t.Parallel()
	n := setupISCSI(t)
	done := make(chan error)
	for _, uid := range []types.UID{"a", "b", "c"} {
		go func() {
			_, err := n.m.Setup(t.Context(), iscsiPod(uid, nil), &corev1.PodStatus{})
			done <- err
		}()
	}
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	n.runs(t, "together", append(slices.Clone(logsIn), formats...)...)
	d, err := iscsi.Of("v", iscsiPod("a", nil).Spec.Volumes[0].ISCSI)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := n.m.records.Read(&d); err != nil || len(r.Users) != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestISCSILoginIsHandedOn has who used an administrator's login end the node's own, which another disk needed meanwhile and left to it.
func TestISCSILoginIsHandedOn(t *testing.T) {
	t.Parallel()
	n := setupISCSI(t)
	n.Units = []int{0, 1}
	n.LogIn(target, "default", portal)
	n.setup(t, iscsiPod("a", nil))
	if _, _, err := n.Run(t.Context(), "iscsiadm", "-m", "node", "-p", portal, "-T", target, "-I", "default", "--logout"); err != nil { // the administrator
		t.Fatal(err)
	}
	n.setup(t, iscsiPod("b", func(s *corev1.ISCSIVolumeSource) { s.Lun = 1 }))
	n.cleanup(t, "b")
	n.m.sweep(t.Context())
	if len(n.Sessions()) != 1 {
		t.Errorf("sessions %v while a disk is in use", n.Sessions())
	}
	n.cleanup(t, "a")
	n.m.sweep(t.Context())
	n.bare(t)
}
