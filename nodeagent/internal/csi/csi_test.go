package csi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/nodeagent/internal/attach"
	"howdah.dev/nodeagent/internal/pause"
)

// fake is a driver that notes what it is asked for; its mounts are names in a set.
type fake struct {
	csipb.UnimplementedNodeServer
	can []csipb.NodeServiceCapability_RPC_Type

	mu        sync.Mutex
	calls     []string
	mounts    map[string]bool
	refuse    map[string]error // by method
	empty     bool             // it publishes nothing, and does not say so
	stage     *csipb.NodeStageVolumeRequest
	publish   *csipb.NodePublishVolumeRequest
	expansion *csipb.NodeExpandVolumeRequest
	measure   *csipb.NodeGetVolumeStatsRequest
	usage     []*csipb.VolumeUsage
}

func (f *fake) called(method string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, method)
	return f.refuse[method]
}

func (f *fake) heard() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	said := strings.Join(f.calls, " ")
	f.calls = nil
	return said
}

func (f *fake) below(path string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []string
	for point := range f.mounts {
		if point == path || strings.HasPrefix(point, path+"/") {
			found = append(found, point)
		}
	}
	return found, nil
}

// device is where something is published.
func (f *fake) device(path string) (bool, error) {
	if to, err := os.Readlink(path); err == nil {
		path = to
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mounts[path], nil
}

func (f *fake) set(point string, mounted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if mounted {
		f.mounts[point] = true
	} else {
		delete(f.mounts, point)
	}
}

func (f *fake) NodeGetCapabilities(context.Context, *csipb.NodeGetCapabilitiesRequest) (*csipb.NodeGetCapabilitiesResponse, error) {
	answer := &csipb.NodeGetCapabilitiesResponse{}
	for _, c := range f.can {
		answer.Capabilities = append(answer.Capabilities, &csipb.NodeServiceCapability{Type: &csipb.NodeServiceCapability_Rpc{Rpc: &csipb.NodeServiceCapability_RPC{Type: c}}})
	}
	return answer, nil
}

func (f *fake) NodeGetVolumeStats(_ context.Context, r *csipb.NodeGetVolumeStatsRequest) (*csipb.NodeGetVolumeStatsResponse, error) {
	f.measure = r
	return &csipb.NodeGetVolumeStatsResponse{Usage: f.usage}, f.called("stats")
}

func (f *fake) NodeStageVolume(_ context.Context, r *csipb.NodeStageVolumeRequest) (*csipb.NodeStageVolumeResponse, error) {
	f.stage = r
	err := f.called("stage")
	if err == nil {
		f.set(r.GetStagingTargetPath(), true)
	}
	return &csipb.NodeStageVolumeResponse{}, err
}

func (f *fake) NodeUnstageVolume(_ context.Context, r *csipb.NodeUnstageVolumeRequest) (*csipb.NodeUnstageVolumeResponse, error) {
	err := f.called("unstage")
	if err == nil {
		f.set(r.GetStagingTargetPath(), false)
	}
	return &csipb.NodeUnstageVolumeResponse{}, err
}

func (f *fake) NodePublishVolume(_ context.Context, r *csipb.NodePublishVolumeRequest) (*csipb.NodePublishVolumeResponse, error) {
	f.publish = r
	err := f.called("publish")
	if err == nil {
		f.set(r.GetTargetPath(), !f.empty)
		if r.GetVolumeCapability().GetBlock() != nil { // whose folder is there
			err = os.WriteFile(r.GetTargetPath(), nil, 0o600)
		} else {
			err = os.MkdirAll(r.GetTargetPath(), 0o750)
		}
	}
	return &csipb.NodePublishVolumeResponse{}, err
}

func (f *fake) NodeUnpublishVolume(_ context.Context, r *csipb.NodeUnpublishVolumeRequest) (*csipb.NodeUnpublishVolumeResponse, error) {
	err := f.called("unpublish")
	if err == nil {
		f.set(r.GetTargetPath(), false)
		err = os.RemoveAll(r.GetTargetPath())
	}
	return &csipb.NodeUnpublishVolumeResponse{}, err
}

func (f *fake) NodeExpandVolume(_ context.Context, r *csipb.NodeExpandVolumeRequest) (*csipb.NodeExpandVolumeResponse, error) {
	f.expansion = r
	return &csipb.NodeExpandVolumeResponse{}, f.called("expand")
}

// api is what the node knows of the cluster.
type api struct {
	driver     *storagev1.CSIDriver
	secrets    map[string]map[string][]byte
	attachment *storagev1.VolumeAttachment
	node       *corev1.Node
	grown      []string
}

func (a *api) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	if data, ok := a.secrets[namespace+"/"+name]; ok {
		return &corev1.Secret{Data: data}, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secret"}, name)
}

func (a *api) CSIDriver(context.Context, string) (*storagev1.CSIDriver, error) { return a.driver, nil }

func (a *api) Attachment(_ context.Context, name string) (*storagev1.VolumeAttachment, error) {
	if a.attachment == nil || a.attachment.Name != name {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "volumeattachment"}, name)
	}
	return a.attachment, nil
}

func (a *api) Node(context.Context, string) (*corev1.Node, error) { return a.node, nil }

func (a *api) ChangeClaim(_ context.Context, claim *corev1.PersistentVolumeClaim, change func(*corev1.PersistentVolumeClaim)) (*corev1.PersistentVolumeClaim, error) {
	changed := claim.DeepCopy()
	change(changed)
	if !changed.Status.Capacity.Storage().Equal(*claim.Status.Capacity.Storage()) {
		a.grown = append(a.grown, changed.Name+" "+changed.Status.Capacity.Storage().String())
	}
	return changed, nil
}

// world is a node with one driver.
type world struct {
	*Volumes
	*fake
	api      *api
	reported []corev1.UniqueVolumeName
	changes  int
	told     []string // at claims
	operated []string // of what was taken away
}

const stageCap, expandCap = csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csipb.NodeServiceCapability_RPC_EXPAND_VOLUME

func setup(t *testing.T, can ...csipb.NodeServiceCapability_RPC_Type) *world {
	t.Helper()
	no := false
	w := &world{
		fake: &fake{can: can, mounts: map[string]bool{}, refuse: map[string]error{}},
		api: &api{driver: &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{AttachRequired: &no}},
			secrets: map[string]map[string][]byte{"ns/stage": {"a": []byte("1")}, "ns/publish": {"b": []byte("2")}, "ns/expand": {"c": []byte("3")}}},
	}
	dir, err := os.MkdirTemp("", "csi") // the name of a test may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	endpoint := filepath.Join(dir, "csi.sock")
	listener, err := net.Listen("unix", endpoint)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	csipb.RegisterNodeServer(server, w.fake)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	drivers := NewDrivers(prometheus.NewRegistry())
	driver, err := drivers.Dial("d", endpoint)
	if err != nil {
		t.Fatal(err)
	}
	drivers.Put(driver)
	t.Cleanup(func() { drivers.Remove("d", endpoint) })
	w.start(filepath.Join(dir, "kubelet"), drivers)
	return w
}

// start is the agent's next life.
func (w *world) start(dir string, drivers *Drivers) {
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	w.Volumes = New(Config{
		Dir: dir, NodeName: "n", Drivers: drivers, Objects: w.api, Mounts: w.below, Device: w.device, Clock: clk,
		Token: func(_ context.Context, pod *corev1.Pod, audience string, seconds int64) (string, time.Time, error) {
			return fmt.Sprintf("%s for %s, %d s", pod.Spec.ServiceAccountName, audience, seconds), time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC), nil
		},
		Waiter: attach.New(attach.Config{
			NodeName: "n", Nodes: w.api, Reported: func() []corev1.UniqueVolumeName { return w.reported },
			Changed: func() {
				w.changes++
				w.reported = w.InUse() // the node's status follows
			},
			Clock: clk,
		}),
		Operated: func(driver, operation string, _ time.Duration, err error) {
			w.operated = append(w.operated, fmt.Sprintf("%s %s %t", driver, operation, err == nil))
		},
		Exhausted: func(string) {}, Event: func(*corev1.Pod, string, string, string) {},
		ClaimGrown: func(claim *corev1.PersistentVolumeClaim, message string) {
			w.told = append(w.told, claim.Name+": "+message)
		},
	})
}

func (w *world) again() { w.start(w.cfg.Dir, w.cfg.Drivers) }

func wanted() *Want {
	ref := func(name string) *corev1.SecretReference {
		return &corev1.SecretReference{Namespace: "ns", Name: name}
	}
	return &Want{
		Pod:  &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: corev1.PodSpec{ServiceAccountName: "sa"}},
		Name: "pv",
		PV: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, MountOptions: []string{"noatime"},
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "d", VolumeHandle: "h", FSType: "ext4", VolumeAttributes: map[string]string{"x": "y"},
				NodeStageSecretRef: ref("stage"), NodePublishSecretRef: ref("publish"), NodeExpandSecretRef: ref("expand"),
			}},
		}},
		Claim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
			Status:     corev1.PersistentVolumeClaimStatus{Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

func (w *world) must(t *testing.T, calls string) {
	t.Helper()
	if got := w.heard(); got != calls {
		t.Errorf("the driver heard %q, want %q", got, calls)
	}
}

// TestUsage asks a driver that tells what a volume takes up, and only of volumes that are there.
func TestUsage(t *testing.T) {
	t.Parallel()
	w, want := setup(t, csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS), wanted()
	w.usage = []*csipb.VolumeUsage{{Unit: csipb.VolumeUsage_BYTES, Total: 10, Used: 3, Available: 7}}
	if got, err := w.Usage(t.Context(), want); err != nil || got != nil {
		t.Errorf("before it is there: %v, %v", got, err)
	}
	path, err := w.Mount(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	w.must(t, "publish")
	got, err := w.Usage(t.Context(), want)
	if err != nil || len(got) != 1 || got[0].GetUsed() != 3 || w.measure.GetVolumeId() != "h" || w.measure.GetVolumePath() != path {
		t.Errorf("%v, %v, asked for %v", got, err, w.measure)
	}
	w.must(t, "stats")
	w.usage = nil
	if got, err := w.Usage(t.Context(), want); err == nil {
		t.Errorf("an empty answer: %v", got)
	}
	silent := setup(t)
	if _, err := silent.Mount(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if got, err := silent.Usage(t.Context(), want); err != nil || got != nil {
		t.Errorf("a driver that does not tell: %v, %v", got, err)
	}
	silent.must(t, "publish")
}

// TestVolumeOfAPod goes the whole way and back. A second time nothing is asked, and nothing is left.
func TestVolumeOfAPod(t *testing.T) {
	t.Parallel()
	w := setup(t, stageCap)
	want := wanted()
	path, err := w.Mount(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	w.must(t, "stage publish")
	staging := filepath.Join(w.cfg.Dir, "plugins/kubernetes.io/csi/d", "aaa9402664f1a41f40ebbc52c9993eb66aeb366602958fdfaa283b71e64db123", "globalmount")
	if target := filepath.Join(w.cfg.Dir, "pods/u/volumes/kubernetes.io~csi/pv/mount"); path != target || w.publish.GetTargetPath() != target {
		t.Errorf("published at %s, %s", path, w.publish.GetTargetPath())
	}
	if w.stage.GetStagingTargetPath() != staging || w.publish.GetStagingTargetPath() != staging {
		t.Errorf("staged at %s, %s", w.stage.GetStagingTargetPath(), w.publish.GetStagingTargetPath())
	}
	if w.stage.GetSecrets()["a"] != "1" || w.publish.GetSecrets()["b"] != "2" || w.stage.GetVolumeContext()["x"] != "y" || w.stage.GetVolumeId() != "h" {
		t.Errorf("asked for %v, %v", w.stage, w.publish)
	}
	if mount := w.stage.GetVolumeCapability().GetMount(); mount.GetFsType() != "ext4" || !slices.Equal(mount.GetMountFlags(), []string{"noatime"}) {
		t.Errorf("capability %v", mount)
	}
	if _, err := w.Mount(t.Context(), want); err != nil {
		t.Error(err)
	}
	w.must(t, "")
	second := wanted()
	second.Pod.UID = "u2"
	if _, err := w.Mount(t.Context(), second); err != nil {
		t.Error(err)
	}
	w.must(t, "publish")
	if err := w.Unmount(t.Context(), "u"); err != nil {
		t.Error(err)
	}
	w.sweep(t.Context())
	w.must(t, "unpublish") // the other pod has it still
	w.again()
	if err := w.Unmount(t.Context(), "u2"); err != nil {
		t.Error(err)
	}
	w.sweep(t.Context())
	w.must(t, "unpublish unstage")
	if want := []string{"d volume_unmount true", "d volume_unmount true", "d unmount_device true"}; !slices.Equal(w.operated, want) {
		t.Errorf("measured: %q, not %q", w.operated, want)
	}
	for _, dir := range []string{"pods/u", "pods/u2", "plugins/kubernetes.io/csi/d"} {
		if _, err := os.Stat(filepath.Join(w.cfg.Dir, dir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
}

// TestInlineVolume gives the driver what it wants to know of the pod, and tokens of its account.
func TestInlineVolume(t *testing.T) {
	t.Parallel()
	w := setup(t, stageCap)
	yes := true
	want := wanted()
	want.PV, want.Claim, want.Name = nil, nil, "v"
	want.Inline = &corev1.CSIVolumeSource{Driver: "d", VolumeAttributes: map[string]string{"k": "v"}, NodePublishSecretRef: &corev1.LocalObjectReference{Name: "publish"}}
	_, err := w.Mount(t.Context(), want)
	if says := `MountVolume.SetUp failed: volume mode "Ephemeral" not supported by driver d (only supports [])`; err == nil || err.Error() != says {
		t.Errorf("%v, want %s", err, says)
	}
	w.api.driver.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}
	w.api.driver.Spec.PodInfoOnMount = &yes
	w.api.driver.Spec.TokenRequests = []storagev1.TokenRequest{{Audience: "vault"}}
	if _, err := w.Mount(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	w.must(t, "publish")
	said := w.publish.GetVolumeContext()
	for k, v := range map[string]string{
		"k": "v", "csi.storage.k8s.io/pod.name": "p", "csi.storage.k8s.io/pod.namespace": "ns", "csi.storage.k8s.io/pod.uid": "u", "csi.storage.k8s.io/serviceAccount.name": "sa",
		"csi.storage.k8s.io/ephemeral": "true", tokensKey: `{"vault":{"token":"sa for vault, 3600 s","expirationTimestamp":"2026-01-01T01:00:00Z"}}`,
	} {
		if said[k] != v {
			t.Errorf("%s is %q, want %q", k, said[k], v)
		}
	}
	if handle := w.publish.GetVolumeId(); !strings.HasPrefix(handle, "csi-") || len(handle) != 68 || w.publish.GetSecrets()["b"] != "2" {
		t.Errorf("handle %s, secrets %v", handle, w.publish.GetSecrets())
	}
	w.api.driver.Spec.ServiceAccountTokenInSecrets, w.api.driver.Spec.RequiresRepublish = &yes, &yes
	if err := w.Renew(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	w.must(t, "publish")
	if _, open := w.publish.GetVolumeContext()[tokensKey]; open || w.publish.GetSecrets()[tokensKey] == "" {
		t.Errorf("the tokens are not where secrets are: %v", w.publish)
	}
	if err := w.Unmount(t.Context(), "u"); err != nil {
		t.Error(err)
	}
	w.must(t, "unpublish")
}

// TestDriverAway keeps what cannot be undone, and does not ask over and over.
func TestDriverAway(t *testing.T) {
	t.Parallel()
	w := setup(t, stageCap)
	if _, err := w.Mount(t.Context(), wanted()); err != nil {
		t.Fatal(err)
	}
	w.must(t, "stage publish")
	w.refuse["unpublish"], w.refuse["unstage"] = status.Error(codes.Unavailable, "away"), status.Error(codes.Unavailable, "away")
	for range 2 {
		if err := w.Unmount(t.Context(), "u"); err == nil {
			t.Error("it is said to be unmounted")
		}
	}
	w.must(t, "unpublish")
	clk := w.cfg.Clock.(*clocktesting.FakeClock)
	clk.Step(pause.First)
	delete(w.refuse, "unpublish")
	if err := w.Unmount(t.Context(), "u"); err != nil {
		t.Error(err)
	}
	if next := w.sweep(t.Context()); next != pause.First {
		t.Errorf("looks again after %v", next)
	}
	w.sweep(t.Context())
	w.must(t, "unpublish unstage")
	delete(w.refuse, "unstage")
	clk.Step(pause.First)
	w.sweep(t.Context())
	w.must(t, "unstage")
	if len(w.mounts) != 0 {
		t.Errorf("mounts %v", slices.Collect(maps.Keys(w.mounts)))
	}
}

// TestHalfMade undoes what a driver may have begun, and asks it nothing of which it has never heard.
func TestHalfMade(t *testing.T) {
	t.Parallel()
	w := setup(t, stageCap)
	w.refuse["stage"] = status.Error(codes.DeadlineExceeded, "slow")
	_, err := w.Mount(t.Context(), wanted())
	if says := "MountVolume.MountDevice failed: rpc error: code = DeadlineExceeded desc = slow"; err == nil || err.Error() != says {
		t.Errorf("%v, want %s", err, says)
	}
	w.again()
	if err := w.Unmount(t.Context(), "u"); err != nil {
		t.Error(err)
	}
	w.sweep(t.Context())
	w.must(t, "stage unstage")
}

// TestOnePodAlone refuses a second pod a volume that is one pod's.
func TestOnePodAlone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	want := wanted()
	want.PV.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	if _, err := w.Mount(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	want.Pod = want.Pod.DeepCopy()
	want.Pod.UID = "u2"
	_, err := w.Mount(t.Context(), want)
	if says := "MountVolume.SetUp failed: volume uses the ReadWriteOncePod access mode and is already in use by another pod"; err == nil || err.Error() != says {
		t.Errorf("%v, want %s", err, says)
	}
}

// TestGroups gives a volume to the pod's group: the driver does, or the agent where the driver's policy has it so.
func TestGroups(t *testing.T) {
	t.Parallel()
	none, file := storagev1.NoneFSGroupPolicy, storagev1.FileFSGroupPolicy
	for name, c := range map[string]struct {
		policy *storagev1.FSGroupPolicy
		change func(*Want)
		can    []csipb.NodeServiceCapability_RPC_Type
		owns   bool
		told   string
	}{
		"by default":          {nil, nil, nil, true, ""},
		"many nodes":          {nil, func(w *Want) { w.PV.Spec.AccessModes[0] = corev1.ReadWriteMany }, nil, false, ""},
		"many nodes, policy":  {&file, func(w *Want) { w.PV.Spec.AccessModes[0] = corev1.ReadWriteMany }, nil, true, ""},
		"no file system type": {nil, func(w *Want) { w.PV.Spec.CSI.FSType = "" }, nil, false, ""},
		"never":               {&none, nil, nil, false, ""},
		"read-only":           {&file, func(w *Want) { w.ReadOnly = true }, nil, false, ""},
		"no group":            {&file, func(w *Want) { w.Pod.Spec.SecurityContext = nil }, nil, false, ""},
		"by the driver":       {&file, nil, []csipb.NodeServiceCapability_RPC_Type{csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP}, false, "2000"},
	} {
		w := setup(t, c.can...)
		w.api.driver.Spec.FSGroupPolicy = c.policy
		want, group, owned := wanted(), int64(2000), false
		want.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
		want.Own = func(string, int64) error { owned = true; return nil }
		if c.change != nil {
			c.change(want)
		}
		if _, err := w.Mount(t.Context(), want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if told := w.publish.GetVolumeCapability().GetMount().GetVolumeMountGroup(); owned != c.owns || told != c.told {
			t.Errorf("%s: owned %v, told %q", name, owned, told)
		}
	}
}

func TestAccessModes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		multi bool
		want  csipb.VolumeCapability_AccessMode_Mode
	}{
		{corev1.ReadWriteOnce, false, csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		{corev1.ReadWriteOnce, true, csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER},
		{corev1.ReadWriteOncePod, false, csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		{corev1.ReadWriteOncePod, true, csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER},
		{corev1.ReadWriteMany, true, csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
		{corev1.ReadOnlyMany, false, csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY},
	} {
		if got := accessMode(c.mode, c.multi); got != c.want {
			t.Errorf("%s, %v: %v, want %v", c.mode, c.multi, got, c.want)
		}
	}
}
