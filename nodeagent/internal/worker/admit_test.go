package worker

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/pod"
)

// bound returns pods that ask for so much CPU each, all of which the API has bound to the node.
func (w *world) bound(cpu string, names ...string) []*corev1.Pod {
	for _, name := range names {
		p := newPod(name, "a")
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		w.others = append(w.others, p)
	}
	return w.others
}

func TestOfPodsThatComeAtOnceSomeFit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, _ := w.start()
	pods := w.bound("1500m", "a", "b", "c", "d")
	for _, p := range pods {
		m.Update(p)
	}
	count := func(phase corev1.PodPhase) int {
		n := 0
		for _, p := range pods {
			if w.status(p.UID).Phase == phase {
				n++
			}
		}
		return n
	}
	w.eventually("decided", func() bool { return count(corev1.PodRunning) == 2 && count(corev1.PodFailed) == 2 })
	for _, p := range pods {
		if s := w.status(p.UID); s.Phase == corev1.PodFailed &&
			(s.Reason != "OutOfcpu" || s.Message != "Pod was rejected: Node didn't have enough resource: cpu, requested: 1500, used: 3000, capacity: 4000") {
			t.Errorf("%s: %s", s.Reason, s.Message)
		}
	}
	if !w.told(" OutOfcpu: Node didn't have enough resource: cpu, requested: 1500, used: 3000, capacity: 4000") {
		t.Errorf("events %v", w.events)
	}
}

func TestPodIsRefusedByTheNodeAsItIsNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fresh = newNode("8")
	m, _ := w.start()
	pods := w.bound("5", "fits", "late")
	m.Update(pods[0])
	w.eventually("ready", w.ready(pods[0].UID))
	m.Update(pods[1])
	w.eventually("rejected", func() bool { return w.status(pods[1].UID).Phase == corev1.PodFailed })
	if s := w.status(pods[1].UID); s.Message != "Pod was rejected: Node didn't have enough resource: cpu, requested: 5000, used: 5000, capacity: 8000" {
		t.Errorf("message %q", s.Message)
	}
}

func TestPodThatHasLeftTakesNoPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, _ := w.start()
	pods := w.bound("3", "first", "second")
	m.Update(pods[0])
	w.eventually("ready", w.ready(pods[0].UID))
	m.Update(endingPod(pods[0], 0))
	w.eventually("gone", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.deleted) == 1 })
	w.mu.Lock()
	w.others = pods[1:]
	w.mu.Unlock()
	m.Update(pods[1])
	w.eventually("ready", w.ready(pods[1].UID))
}

// A pod that the system needs ends others for its room, and starts when they have ended.
func TestCriticalPodMakesRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	w.metrics = NewMetrics(registry, clock.RealClock{})
	m, _ := w.start()
	pods := w.bound("1500m", "small", "smaller", "critical")
	pods[1].Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
	priority := int32(2_000_000_000)
	pods[2].Spec.Priority = &priority
	pods[2].Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
	for _, p := range pods[:2] {
		m.Update(p)
		w.eventually("ready", w.ready(p.UID))
	}
	m.Update(pods[2])
	w.eventually("ready", w.ready(pods[2].UID))
	s := w.status(pods[1].UID)
	if s.Phase != corev1.PodFailed || s.Reason != "Preempting" || s.Message != "Preempted in order to admit critical pod" {
		t.Errorf("the smaller pod: %s, %s, %s", s.Phase, s.Reason, s.Message)
	}
	if got := w.condition(pods[1].UID, corev1.DisruptionTarget); got != "TerminationByKubelet" {
		t.Errorf("condition %q", got)
	}
	if s := w.status(pods[0].UID); s.Phase != corev1.PodRunning {
		t.Errorf("the other pod: %s, %s", s.Phase, s.Message)
	}
	if !w.told(" Preempting: Preempted in order to admit critical pod") {
		t.Errorf("events %v", w.events)
	}
	if n := series(t, registry, `kubelet_preemptions{preemption_signal="cpu"}`); n != 1 {
		t.Errorf("%v pods had to go for want of a processor", n)
	}
	calls := w.runtime.Calls()
	if ended, began := slices.Index(calls, "StopPodSandbox sandbox-3"), slices.Index(calls, "RunPodSandbox critical"); ended < 0 || began < ended {
		t.Errorf("it did not wait for its room:\n%s", strings.Join(calls, "\n"))
	}
}

// Who waits for room can end before it has it.
func TestCriticalPodThatWaitsCanEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, _ := w.start()
	pods := w.bound("3", "stubborn", "critical")
	priority := int32(2_000_000_000)
	pods[1].Spec.Priority = &priority
	m.Update(pods[0])
	w.eventually("ready", w.ready(pods[0].UID))
	w.runtime.Fail("StopPodSandbox", errors.New("it does not end"))
	m.Update(pods[1])
	w.eventually("preempting", func() bool { return w.told(" Preempting: Preempted in order to admit critical pod") })
	m.Update(endingPod(pods[1], 0))
	w.eventually("gone", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.deleted) == 1 })
	if w.called("RunPodSandbox critical") {
		t.Error("it was started without its room")
	}
}

func TestPodThatUsesTooMuchEndsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, _ := w.start()
	p := newPod("greedy", "a")
	p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](300)
	m.Update(p)
	w.eventually("ready", w.ready(p.UID))
	seconds := int64(1)
	why := &pod.Failure{Reason: "Evicted", Message: "too much. ", Grace: &seconds}
	if !m.Evict(p, why) || m.Evict(p, why) {
		t.Error("it is not ended by the first eviction alone")
	}
	w.eventually("failed", func() bool { return w.status(p.UID).Phase == corev1.PodFailed })
	if s := w.status(p.UID); s.Reason != "Evicted" || s.Message != "too much. " {
		t.Errorf("%s: %s", s.Reason, s.Message)
	}
	if !w.told(" Evicted: too much. ") {
		t.Errorf("events %v", w.events)
	}
	if calls := strings.Join(w.runtime.Calls(), "\n"); !strings.Contains(calls+"\n", "StopContainer a 1\n") {
		t.Errorf("it was not given the second that it has to end:\n%s", calls)
	}
	if m.Evict(newPod("stranger", "a"), why) {
		t.Error("a pod that is not here was ended")
	}
}

// What a pod is to have for itself is given before its resources are looked at, is in its containers' configuration, and is taken back when it has ended.
func TestPodHasThingsOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.own = container.Own{Devices: []*runtimeapi.Device{{HostPath: "/dev/x", ContainerPath: "/dev/y", Permissions: "rw"}}, CPUs: "2-3"}
	w.refusals = map[types.UID]*pod.Failure{"uid-short": {Reason: "UnexpectedAdmissionError", Message: "nothing is left", Rejected: true}}
	m, _ := w.start()
	pods := w.bound("1", "has", "short", "huge")
	pods[2].Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("100")
	for _, p := range pods {
		m.Update(p)
	}
	w.eventually("ready", w.ready("uid-has"))
	config := w.runtime.Config("a")
	if config == nil || len(config.GetDevices()) != 1 || config.GetDevices()[0].GetHostPath() != "/dev/x" || config.GetLinux().GetResources().GetCpusetCpus() != "2-3" {
		t.Errorf("%v", config)
	}
	for uid, reason := range map[types.UID]string{"uid-short": "UnexpectedAdmissionError", "uid-huge": "OutOfcpu"} {
		w.eventually("refused", func() bool { return w.status(uid).Reason == reason })
	}
	released := func(uid types.UID) func() bool {
		return func() bool { w.mu.Lock(); defer w.mu.Unlock(); return slices.Contains(w.released, uid) }
	}
	w.eventually("taken back from whom the node refused", released("uid-huge"))
	if released("uid-has")() {
		t.Error("taken back from one that runs")
	}
	m.Update(endingPod(pods[0], 0))
	w.eventually("taken back", released("uid-has"))
}

// TestAdmittedAnew starts the agent again, after a while in which what a pod had for itself has gone: one whose sandbox has gone as well is refused, one that runs
// on is not asked about.
func TestAdmittedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, stop := w.start()
	pods := w.bound("1", "lost", "runs", "back")
	for _, p := range pods {
		m.Update(p)
	}
	for _, p := range pods {
		w.eventually("ready", w.ready(p.UID))
	}
	stop()
	sandboxes, err := w.runtime.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sandboxes.GetItems() {
		if s.GetMetadata().GetUid() != "uid-runs" {
			if _, err := w.runtime.RemovePodSandbox(t.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: s.GetId()}); err != nil {
				t.Fatal(err)
			}
		}
	}
	gone := &pod.Failure{Reason: "UnexpectedAdmissionError", Message: "its device is gone", Rejected: true}
	w.mu.Lock()
	w.refusals = map[types.UID]*pod.Failure{"uid-lost": gone, "uid-runs": gone}
	w.mu.Unlock()
	started := len(w.runtime.Calls())
	m, _ = w.start()
	for _, p := range pods {
		told := p.DeepCopy()
		told.Status = w.status(p.UID)
		m.Update(told)
	}
	w.eventually("refused", func() bool { s := w.status("uid-lost"); return s.Phase == corev1.PodFailed && s.Reason == gone.Reason })
	w.eventually("begun anew", func() bool {
		return slices.Contains(w.runtime.Calls()[started:], "StartContainer a")
	})
	w.eventually("ready", w.ready("uid-back"))
	count := 0
	for _, call := range w.runtime.Calls()[started:] {
		if call == "StartContainer a" {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d containers were started", count)
	}
	if s := w.status("uid-runs"); s.Phase != corev1.PodRunning {
		t.Errorf("the one that runs is %s: %s", s.Phase, s.Message)
	}
}
