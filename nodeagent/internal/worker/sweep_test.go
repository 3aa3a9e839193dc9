package worker

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/pressure"
	"howdah.dev/nodeagent/internal/usage"
)

// full is a node whose disk is full as long as the runtime holds a container of the greedy pod.
type full struct {
	*world
	greedy types.UID

	mu    sync.Mutex
	notes []string
}

func (f *full) Room(ctx context.Context) (usage.Room, error) {
	held, err := f.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: map[string]string{cri.LabelPodUID: string(f.greedy)}},
	})
	if err != nil {
		return usage.Room{}, err
	}
	disk := &usage.Filesystem{Device: "1", Available: 500, Capacity: 1000}
	if len(held.GetContainers()) > 0 {
		disk.Available = 99
	}
	return usage.Room{At: time.Now(), Disk: disk}, nil
}

func (f *full) Read(context.Context) *usage.Reading {
	return &usage.Reading{Pods: []usage.Pod{
		{UID: "uid-modest", Containers: []usage.Container{{Name: "a", Rootfs: &usage.Files{Bytes: 10}}}},
		{UID: f.greedy, Containers: []usage.Container{{Name: "a", Rootfs: &usage.Files{Bytes: 400}}}},
	}}
}

func (f *full) Evicted(p *corev1.Pod, annotations map[string]string, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notes = append(f.notes, p.Name+": "+message+annotations["offending_containers"])
}

func (f *full) Reclaiming(corev1.ResourceName) {}

func (f *full) stored(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	p.Status = f.status(p.UID)
	return p
}

// The whole way: a full disk, the greediest pod's end, what it left, and the pods that come meanwhile.
func TestNodeWhoseDiskIsFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, _ := w.start()
	greedy, modest := newPod("greedy", "a"), newPod("modest", "a")
	f := &full{world: w, greedy: greedy.UID}
	w.others = []*corev1.Pod{greedy, modest}
	for _, p := range w.others {
		m.Update(p)
		w.eventually("ready", w.ready(p.UID))
	}
	settings, err := pressure.Options{Hard: "nodefs.available<10%", Transition: time.Minute}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakeClock(time.Now())
	var k *pressure.Keeper
	k = pressure.New(pressure.Config{
		Settings: settings, Usage: f, Events: f, End: m.End, Sweep: m.Sweep, Images: func(context.Context) error { return nil }, Evicted: func(string) {},
		Pods: func() []*corev1.Pod {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Clone(w.others)
		},
		Changed: func() { // the reporter's part
			status := corev1.ConditionFalse
			if k.Short().Disk {
				status = corev1.ConditionTrue
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.node = w.node.DeepCopy()
			w.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: status}}
		},
		RootDir: w.dir, Clock: clk,
	})
	log := filepath.Join(container.LogDirectory(w.dir+"/log", "ns", "greedy", "uid-greedy"), "a")
	if err := os.MkdirAll(log, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = k.Run(ctx)
	}()
	defer func() { cancel(); <-ended }()

	w.eventually("failed", func() bool { return w.status(greedy.UID).Phase == corev1.PodFailed })
	const why = "The node was low on resource: ephemeral-storage. Threshold quantity: 100, available: 99. " +
		"Container a was using 400, request is 0, has larger consumption of ephemeral-storage. "
	if s := w.status(greedy.UID); s.Reason != "Evicted" || s.Message != why {
		t.Errorf("%s: %q", s.Reason, s.Message)
	}
	if got := w.condition(greedy.UID, corev1.DisruptionTarget); got != "TerminationByKubelet" {
		t.Errorf("condition %q", got)
	}
	late := newPod("late", "a")
	m.Update(late)
	w.eventually("refused", func() bool { return w.status(late.UID).Phase == corev1.PodFailed })
	if s := w.status(late.UID); s.Reason != "Evicted" || s.Message != "Pod was rejected: The node had condition: [DiskPressure]. " {
		t.Errorf("%s: %q", s.Reason, s.Message)
	}
	// What the pod has left goes once the API knows how it ended, and is enough.
	w.eventually("told", func() bool { return told(f.stored(greedy)) })
	if err := m.Sweep(t.Context()); err != nil || strings.Contains(strings.Join(w.runtime.Calls(), "\n"), "RemoveContainer") {
		t.Errorf("something went before the API knew of its end: %v", err)
	}
	m.Update(f.stored(greedy))
	w.mu.Lock()
	w.others = []*corev1.Pod{modest}
	w.mu.Unlock()
	w.eventually("swept", func() bool { clk.Step(time.Second); return !k.Short().Disk })
	if _, err := os.Stat(log); !os.IsNotExist(err) {
		t.Errorf("the logs are left: %v", err)
	}
	if s := w.status(modest.UID); s.Phase != corev1.PodRunning {
		t.Errorf("the modest pod: %s, %s", s.Phase, s.Message)
	}
	if s := w.status(greedy.UID); s.Phase != corev1.PodFailed || s.ContainerStatuses[0].State.Terminated == nil {
		t.Errorf("the greedy pod after its containers are gone: %v", s)
	}
	if calls := strings.Join(w.runtime.Calls(), "\n"); !strings.Contains(calls+"\n", "StopContainer a 1\n") {
		t.Errorf("it was not given the second that it has to end:\n%s", calls)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.notes) != 1 || f.notes[0] != "greedy: "+why+"a" {
		t.Errorf("told: %q", f.notes)
	}
}

// A pod that is deleted and takes its time ends sooner where the node cannot wait.
func TestEndingPodEndsSooner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, _ := w.start()
	p := newPod("slow", "a")
	m.Update(p)
	w.eventually("ready", w.ready(p.UID))
	w.mu.Lock()
	w.serving = map[types.UID]chan struct{}{p.UID: make(chan struct{})} // it is held back by load balancers for as long as it may be
	w.mu.Unlock()
	m.Update(endingPod(p, 600))
	if m.End(p, &pod.Failure{Reason: "Evicted", Grace: ptr.To[int64](1)}) == nil {
		t.Error("it was not ended")
	}
	w.eventually("gone", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.deleted) == 1 })
	if calls := strings.Join(w.runtime.Calls(), "\n"); !strings.Contains(calls+"\n", "StopContainer a 1\n") {
		t.Errorf("it kept its own time:\n%s", calls)
	}
}
