package pressure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/nodeagent/internal/cgroup"
	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/usage"
)

// node is one that a Keeper looks at; did is what it does.
type node struct {
	t       *testing.T
	clock   *clocktesting.FakeClock
	room    usage.Room
	broken  error
	reading usage.Reading
	pods    []*corev1.Pod
	dir     string
	did     []string
	gone    map[string]bool // pods that somebody has ended before
	lasting chan struct{}   // the end of pods; closed where nil
	sweep   func()
}

func (n *node) Room(context.Context) (usage.Room, error) {
	n.room.At = n.clock.Now().Add(-2 * time.Second)
	return n.room, n.broken
}

func (n *node) Read(context.Context) *usage.Reading { return &n.reading }

func (n *node) Evicted(p *corev1.Pod, annotations map[string]string, message string) {
	n.did = append(n.did, "tell of "+p.Name+", "+annotations["starved_resource"])
}

func (n *node) Reclaiming(resource corev1.ResourceName) {
	n.did = append(n.did, "reclaim "+string(resource))
}

func (n *node) end(p *corev1.Pod, why *pod.Failure) <-chan struct{} {
	if n.gone[p.Name] {
		return nil
	}
	n.gone[p.Name] = true
	n.did = append(n.did, fmt.Sprintf("end %s within %d", p.Name, *why.Grace))
	if n.lasting != nil {
		return n.lasting
	}
	ended := make(chan struct{})
	close(ended)
	return ended
}

func (n *node) keeper(o Options) *Keeper {
	n.t.Helper()
	note := func(what string, err error) func(context.Context) error {
		return func(context.Context) error {
			n.did = append(n.did, what)
			if n.sweep != nil {
				n.sweep()
			}
			return err
		}
	}
	return New(Config{
		Settings: settings(n.t, o), Usage: n, Pods: func() []*corev1.Pod { return n.pods }, End: n.end, Events: n, RootDir: n.dir, Clock: n.clock,
		Sweep: note("sweep", nil), Images: note("images", errors.New("one is stuck")), Registerer: prometheus.NewRegistry(),
		Changed: func() { n.did = append(n.did, "changed") }, Evicted: func(signal string) { n.did = append(n.did, "count "+signal) },
	})
}

func (n *node) add(p *corev1.Pod, memory, written uint64) *corev1.Pod {
	p.UID = types.UID("uid-" + p.Name)
	n.pods = append(n.pods, p)
	used := cgroup.Usage{Memory: &cgroup.Memory{WorkingSet: memory}}
	n.reading.Pods = append(n.reading.Pods, usage.Pod{UID: p.UID, Name: p.Name, Measured: usage.Measured{Usage: used}, Containers: []usage.Container{
		{Name: "c", Measured: usage.Measured{Usage: used}, Rootfs: &usage.Files{Bytes: written, Inodes: 1}},
	}})
	return p
}

func newNode(t *testing.T) *node {
	return &node{
		t: t, clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), dir: t.TempDir(), gone: map[string]bool{},
		room: usage.Room{
			Memory: usage.Left{Available: 500, Capacity: 1000}, Processes: usage.Left{Available: 500, Capacity: 1000},
			Disk: &usage.Filesystem{Device: "1", Available: 500, Capacity: 1000, Inodes: 1000, InodesFree: 500},
		},
	}
}

// expect compares what was done since the last time.
func (n *node) expect(want ...string) {
	n.t.Helper()
	if !slices.Equal(n.did, want) {
		n.t.Errorf("done:\n%s\nwant:\n%s", strings.Join(n.did, "\n"), strings.Join(want, "\n"))
	}
	n.did = nil
}

func TestKeeperEndsOnePodARound(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.add(newPod("modest", 0, "memory=1Mi"), 1000, 0)
	n.add(newPod("system", 2_000_000_000), 1<<40, 0)
	n.add(newPod("finished", 0), 1<<40, 0).Status.Phase = corev1.PodSucceeded
	n.add(newPod("greedy", 0), 1<<30, 0)
	n.add(newPod("second", 0), 1<<20, 0)
	n.add(newPod("leaves", 0), 1<<10, 0).DeletionTimestamp = &metav1.Time{}
	k := n.keeper(Options{Hard: "memory.available<10%", Transition: time.Minute})
	k.round(t.Context())
	n.expect()
	n.room.Memory.Available = 99
	k.round(t.Context())
	n.expect("changed", "reclaim memory", "end greedy within 1", "tell of greedy, memory", "count memory.available")
	if !k.Short().Memory {
		t.Error("it is not short of memory")
	}
	for _, name := range []string{"second", "leaves", "modest"} {
		k.round(t.Context())
		n.expect("reclaim memory", "end "+name+" within 1", "tell of "+name+", memory", "count memory.available")
	}
	k.round(t.Context())
	n.expect("reclaim memory")
	n.room.Memory.Available = 100
	k.round(t.Context())
	n.expect()
	n.clock.Step(time.Minute)
	k.round(t.Context())
	n.expect("changed")
	if k.Short() != (Conditions{}) {
		t.Errorf("short of %+v", k.Short())
	}
	if got := testutil.CollectAndCount(k.age); got != 1 {
		t.Errorf("%d ages of what was read", got)
	}
}

func TestKeeperRemovesWhatNobodyNeedsFirst(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.add(newPod("written", 0), 0, 40<<10)
	filled := n.add(newPod("filled", 0), 0, 0)
	filled.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	volume := filepath.Join(container.PodDir(n.dir, filled), "volumes", "kubernetes.io~empty-dir", "v")
	if err := os.MkdirAll(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(volume, "file"), bytes.Repeat([]byte("x"), 80<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	k := n.keeper(Options{Hard: "nodefs.available<10%", MinimumReclaim: "nodefs.available=5%"})
	n.room.Disk.Available = 99
	n.sweep = func() { n.room.Disk.Available = 150 }
	k.round(t.Context())
	n.expect("changed", "reclaim ephemeral-storage", "sweep", "images")
	n.room.Disk.Available = 99
	n.sweep = func() { n.room.Disk.Available = 149 } // not enough for the least that is to be freed
	k.round(t.Context())
	n.expect("reclaim ephemeral-storage", "sweep", "images", "end filled within 1", "tell of filled, ephemeral-storage", "count nodefs.available")
	// Images with a disk of their own have nothing to give to the other one.
	n.room.Images = &usage.Filesystem{Device: "2", Available: 900, Capacity: 1000}
	k.round(t.Context())
	n.expect("reclaim ephemeral-storage", "sweep", "end written within 1", "tell of written, ephemeral-storage", "count nodefs.available")
}

func TestKeeperGivesTimeWhereItCan(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.add(newPod("p", 0), 0, 0)
	k := n.keeper(Options{Soft: "pid.available<10%", SoftGrace: "pid.available=15s", MaxPodGrace: 7})
	n.room.Processes.Available = 1
	k.round(t.Context())
	n.expect("changed")
	n.clock.Step(every)
	k.round(t.Context())
	n.expect()
	n.clock.Step(every)
	k.round(t.Context())
	n.expect("reclaim pids", "end p within 7", "tell of p, pids", "count pid.available")
}

func TestKeeperDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.lasting = make(chan struct{})
	n.add(newPod("p", 0), 1, 0)
	k := n.keeper(Options{Hard: "memory.available<10%"})
	n.room.Memory.Available = 1
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.round(t.Context())
	}()
	for !n.clock.HasWaiters() { // until it waits for the pod's end
		select {
		case <-done:
			t.Fatal("it does not wait")
		case <-time.After(time.Millisecond):
		}
	}
	n.clock.Step(patience)
	<-done
	n.expect("changed", "reclaim memory", "end p within 1", "tell of p, memory", "count memory.available")
}

func TestKeeperJudgesNothingThatItCannotRead(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.add(newPod("p", 0), 1, 0)
	k := n.keeper(Options{Hard: DefaultHard})
	n.room, n.broken = usage.Room{}, errors.New("the disk does not answer")
	k.round(t.Context())
	n.expect()
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newNode(t).keeper(Options{}).Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
