package volumestats

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/nodeagent/internal/csi"
	"howdah.dev/nodeagent/internal/usage"
	"howdah.dev/nodeagent/internal/volume"
)

// disks are the volumes of pods, by uid, and what their driver tells.
type disks struct {
	mu     sync.Mutex
	pods   []*corev1.Pod
	places map[types.UID][]volume.Place
	told   []*csipb.VolumeUsage
	err    error
}

func (d *disks) Places(_ context.Context, pod *corev1.Pod) []volume.Place { return d.places[pod.UID] }

func (d *disks) Usage(context.Context, volume.Place) ([]*csipb.VolumeUsage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.told, d.err
}

func (d *disks) all() []*corev1.Pod {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pods
}

func (d *disks) set(err error, pods ...*corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.pods = err, pods
}

func newPod(name string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Status:     corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Name: "c"}}},
	}
}

// TestVolumesAreMeasured counts folders, asks the disk and the driver, tells of claims once, and forgets pods that have gone.
func TestVolumesAreMeasured(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), make([]byte, 9000), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "file"), filepath.Join(dir, "same")); err != nil {
		t.Fatal(err)
	}
	d := &disks{
		places: map[types.UID][]volume.Place{
			"a": {
				{Name: "scratch", Folder: dir, Scratch: true}, {Name: "disk", Disk: dir, Claim: "local"}, {Name: "absent", Folder: filepath.Join(dir, "none")},
				{Name: "driven", Claim: "shared", Driver: &csi.Want{Inline: &corev1.CSIVolumeSource{Driver: "d.test"}}}, {Name: "raw", Claim: "raw", Device: filepath.Join(dir, "file")},
				{Name: "no device", Device: filepath.Join(dir, "none")},
			},
			"b":     {{Name: "again", Claim: "shared", Driver: &csi.Want{Inline: &corev1.CSIVolumeSource{Driver: "d.test"}}}},
			"ended": {{Name: "scratch", Folder: dir}},
		},
		told: []*csipb.VolumeUsage{
			{Unit: csipb.VolumeUsage_BYTES, Total: 100, Used: 60, Available: 40}, {Unit: csipb.VolumeUsage_INODES, Total: 10, Used: 3, Available: -1},
		},
	}
	b := newPod("b", corev1.PodRunning)
	d.set(nil, newPod("a", corev1.PodRunning), b, newPod("ended", corev1.PodSucceeded))
	clk, registry := clocktesting.NewFakeClock(time.Unix(1000, 0)), prometheus.NewRegistry()
	k := New(Config{Pods: d.all, Volumes: d, Every: time.Minute, Clock: clk, Registerer: registry})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = k.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	look := func(is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // the clock calls in its own time
			if clk.HasWaiters() {
				clk.Step(time.Minute)
			}
			if is() {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("measured: %+v", k.Of("a"))
			}
		}
	}
	look(func() bool { return len(k.Of("a")) == 4 && len(k.Of("b")) == 1 })
	if k.Of("ended") != nil {
		t.Errorf("a pod that has ended: %+v", k.Of("ended"))
	}
	scratch, disk, driven := k.Of("a")[0], k.Of("a")[1], k.Of("a")[2]
	if !scratch.Scratch || *scratch.InodesUsed != 2 || *scratch.Used < 9000 || *scratch.Used > 64<<10 || *scratch.Capacity != *disk.Capacity || *scratch.Available == 0 {
		t.Errorf("the folder takes up %d bytes and %d inodes of %d", *scratch.Used, *scratch.InodesUsed, *scratch.Capacity)
	}
	whole, err := usage.StatFilesystem(dir, time.Time{})
	if err != nil || disk.Claim != "local" || *disk.Capacity != whole.Capacity || *disk.Inodes != whole.Inodes || *disk.Used <= *scratch.Used {
		t.Errorf("the disk has %d bytes, used %d; %+v, %v", *disk.Capacity, *disk.Used, whole, err)
	}
	if *driven.Capacity != 100 || *driven.Used != 60 || *driven.Available != 40 || *driven.Inodes != 10 || *driven.InodesUsed != 3 || *driven.InodesFree != 0 {
		t.Errorf("the driver's: %+v", driven)
	}
	if raw := k.Of("a")[3]; raw.Claim != "raw" || *raw.Capacity != 9000 || raw.Used != nil || raw.Available != nil || raw.Inodes != nil {
		t.Errorf("a device has a size and nothing else: %+v", raw)
	}
	if n := testutil.CollectAndCount(k.seconds); n != 4 {
		t.Errorf("%d ways to measure are told of, not du, statfs, block and the driver", n)
	}
	const want = `
# HELP kubelet_volume_stats_used_bytes Bytes of the volume that are used.
# TYPE kubelet_volume_stats_used_bytes gauge
kubelet_volume_stats_used_bytes{namespace="ns",persistentvolumeclaim="shared"} 60
`
	d.set(nil, b)
	look(func() bool { return k.Of("a") == nil })
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "kubelet_volume_stats_used_bytes"); err != nil {
		t.Error(err)
	}
	d.set(errors.New("away"), b)
	look(func() bool { return k.Of("b") == nil })
}
