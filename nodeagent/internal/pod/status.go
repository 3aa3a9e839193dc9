package pod

import (
	"bytes"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/podspec"
	"howdah.dev/nodeagent/internal/cri"
)

// Facts are what a status tells of the node.
type Facts struct {
	HostIPs []string
	Now     time.Time
	// RecursiveReadOnly says that the runtime can mount recursively read-only.
	RecursiveReadOnly bool
	// Health, which may be nil, tells how the devices of a container are.
	Health func(container string) []corev1.ResourceStatus
	// Holds says that devices which the pod claims are still to be taken back. Until then it has not ended: others may claim the devices of one that has.
	Holds bool
}

// Status returns what is to be said of the pod: the fields that are the
// agent's, laid over what the API holds. plan is what Make returned.
func Status(pod *corev1.Pod, observed *cri.Pod, memory *Memory, plan Plan, facts Facts) corev1.PodStatus {
	s := *pod.Status.DeepCopy()
	s.ObservedGeneration = pod.Generation
	s.QOSClass = podspec.QOSClass(pod)
	if s.StartTime == nil {
		s.StartTime = &metav1.Time{Time: facts.Now}
	}
	addresses(&s, pod, observed, facts)

	w := writer{pod, observed, memory, plan, lifeOf(pod, observed), facts.RecursiveReadOnly}
	initialized := w.initialized()
	s.InitContainerStatuses = make([]corev1.ContainerStatus, 0, len(pod.Spec.InitContainers))
	for i := range pod.Spec.InitContainers {
		s.InitContainerStatuses = append(s.InitContainerStatuses, w.container(&pod.Spec.InitContainers[i], true, initialized))
	}
	s.ContainerStatuses = make([]corev1.ContainerStatus, 0, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, w.container(&pod.Spec.Containers[i], false, initialized))
		s.ContainerStatuses[i].AllocatedResourcesStatus = health(pod, pod.Spec.Containers[i].Name, facts)
	}
	byName(s.ContainerStatuses)
	s.EphemeralContainerStatuses = nil
	for i := range pod.Spec.EphemeralContainers {
		s.EphemeralContainerStatuses = append(s.EphemeralContainerStatuses, w.ephemeral(plainContainer(&pod.Spec.EphemeralContainers[i])))
	}
	byName(s.EphemeralContainerStatuses)
	if len(s.InitContainerStatuses) == 0 {
		s.InitContainerStatuses = nil
	}

	if !Finished(pod) { // a phase that is final stays
		s.Phase = phase(pod, s.InitContainerStatuses, s.ContainerStatuses, w.owed, active(pod, observed))
		failure := memory.Failed
		if plan.Terminate != nil && plan.Terminate.Failure != nil {
			failure = plan.Terminate.Failure
		}
		if failure != nil {
			s.Phase, s.Reason, s.Message = corev1.PodFailed, failure.Reason, failure.Message
			if failure.Rejected {
				s.Message = rejection + failure.Message
			}
			if failure.Disruption != "" {
				setCondition(&s, pod, facts.Now, corev1.PodCondition{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, Message: failure.Disruption,
				})
			}
		} else if plan.Terminate != nil && !observed.AnyRunning() && s.Phase != corev1.PodSucceeded {
			s.Phase = endedPhase(s.ContainerStatuses)
		}
		// Who waits for the pod's end takes what was its own: nothing of it runs then, and its devices are given back.
		if (facts.Holds || observed.AnyRunning()) && (s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed) {
			s.Phase, s.Reason, s.Message = unended(pod), pod.Status.Reason, pod.Status.Message
		}
	}
	if rejected(pod, memory) {
		reject(&s)
		return s
	}
	conditions(&s, pod, observed, facts.Now)
	restartCondition(&s, pod, plan, facts.Now)
	resizeConditions(&s, pod, memory, plan, facts.Now)
	wholeResources(&s, pod, observed, memory, plan)
	if plan.Terminate != nil && over(observed) {
		account(pod, &s)
	}
	return s
}

// active reports whether one of the pod's main containers has been made in its newest sandbox.
func active(pod *corev1.Pod, observed *cri.Pod) bool {
	sandbox := observed.Sandbox()
	return sandbox != nil && slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		run := observed.Latest(c.Name)
		return run != nil && run.SandboxID == sandbox.ID
	})
}

// over reports whether nothing of the pod is left in the runtime that could run.
func over(observed *cri.Pod) bool {
	return !observed.AnyRunning() && !slices.ContainsFunc(observed.Sandboxes, func(s cri.Sandbox) bool { return s.Ready })
}

// account gives containers of a pod that has ended, of whose end nothing is known, one that is told as a failure: all but those that did not get
// their turn.
func account(pod *corev1.Pod, s *corev1.PodStatus) {
	lose := func(list []corev1.ContainerStatus) {
		for i := range list {
			if list[i].State.Terminated == nil {
				list[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					ExitCode: killed, Reason: "ContainerStatusUnknown", Message: lostAtTheEnd,
				}}
			}
		}
	}
	if len(pendingInit(pod, s)) == 0 || anyRan(s.ContainerStatuses) {
		lose(s.ContainerStatuses)
	}
	begun := min(1, len(s.InitContainerStatuses))
	for i := range s.InitContainerStatuses {
		if c := &s.InitContainerStatuses[i]; c.State.Waiting == nil || c.LastTerminationState.Terminated != nil {
			begun = i + 1
		}
	}
	lose(s.InitContainerStatuses[:begun])
}

// goneAndDone is what is said of an init container of which nothing is left.
const goneAndDone = "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally"

// lostAtTheEnd is what is said of a container that is nowhere when its pod has ended.
const lostAtTheEnd = "The container could not be located when the pod was terminated"

// own are the conditions that nobody but the agent writes.
var own = []corev1.PodConditionType{
	corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReadyToStartContainers,
	corev1.PodResizeInProgress, corev1.PodResizePending, corev1.AllContainersRestarting,
}

// reject leaves of the status what a kubelet tells of a pod that it did not take: that it failed, and why.
func reject(s *corev1.PodStatus) {
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c corev1.PodCondition) bool { return slices.Contains(own, c.Type) })
	s.HostIP, s.HostIPs, s.PodIP, s.PodIPs = "", nil, "", nil
	s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses = nil, nil, nil
	s.Resources, s.AllocatedResources = nil, nil
}

// byName sorts what is told of containers as a kubelet does, whatever order the specification has. Init containers stay in theirs.
func byName(statuses []corev1.ContainerStatus) {
	slices.SortFunc(statuses, func(a, b corev1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) })
}

// unended is the phase of a pod that has not ended: the one that it is known to be in.
func unended(pod *corev1.Pod) corev1.PodPhase {
	if pod.Status.Phase == "" {
		return corev1.PodPending
	}
	return pod.Status.Phase
}

// health tells how a container's devices are; of one that has given them back, how they were.
func health(pod *corev1.Pod, container string, facts Facts) []corev1.ResourceStatus {
	var now []corev1.ResourceStatus
	if facts.Health != nil {
		now = facts.Health(container)
	}
	if told := ToldStatus(pod, container); told != nil {
		for _, before := range told.AllocatedResourcesStatus {
			if !slices.ContainsFunc(now, func(s corev1.ResourceStatus) bool { return s.Name == before.Name }) {
				now = append(now, before)
			}
		}
	}
	return now
}

// rejected reports whether the node did not take the pod, in this life of the agent or, by what the API holds, in an earlier one.
func rejected(pod *corev1.Pod, memory *Memory) bool {
	return memory.Failed != nil && memory.Failed.Rejected || Finished(pod) && strings.HasPrefix(pod.Status.Message, rejection)
}

const rejection = "Pod was rejected: "

func addresses(s *corev1.PodStatus, pod *corev1.Pod, observed *cri.Pod, facts Facts) {
	s.HostIPs = nil
	for _, ip := range facts.HostIPs {
		s.HostIPs = append(s.HostIPs, corev1.HostIP{IP: ip})
	}
	if len(facts.HostIPs) > 0 {
		s.HostIP = facts.HostIPs[0]
	}
	var ips []string
	sandbox := observed.Sandbox()
	switch {
	case pod.Spec.HostNetwork && sandbox != nil:
		ips = facts.HostIPs
	case sandbox != nil && sandbox.Ready:
		ips = sandbox.IPs
	default:
		return // an ended pod keeps the address it had
	}
	if len(ips) == 0 {
		return
	}
	s.PodIP, s.PodIPs = ips[0], nil
	for _, ip := range ips {
		s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: ip})
	}
}

type writer struct {
	pod      *corev1.Pod
	observed *cri.Pod
	memory   *Memory
	plan     Plan
	life     life
	// recursive says that the runtime can mount recursively read-only.
	recursive bool
}

// initialized reports whether all init containers are done.
func (w *writer) initialized() bool {
	for i := range w.pod.Spec.Containers {
		if w.observed.Latest(w.pod.Spec.Containers[i].Name) != nil {
			return true
		}
	}
	return len(w.pod.Spec.InitContainers) == 0
}

func (w *writer) container(c *corev1.Container, init, initialized bool) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, VolumeMounts: mountStatuses(c, w.recursive)}
	told := ToldStatus(w.pod, c.Name)
	runs := w.observed.Runs(c.Name)
	if len(runs) == 0 {
		w.unseen(&s, c, told, init, initialized)
		return s
	}
	run := runs[0]
	w.resources(&s, c)
	s.User = run.User
	if c.Lifecycle != nil && c.Lifecycle.StopSignal != nil && run.StopSignal != "" {
		s.StopSignal = &run.StopSignal
	}
	s.RestartCount = run.Attempt
	s.ContainerID, s.Image, s.ImageID = "containerd://"+run.ID, run.Image, run.ImageRef
	if len(runs) > 1 {
		s.LastTerminationState = w.ended(c, runs[1], run.Life)
	} else if told != nil && told.RestartCount == run.Attempt {
		s.LastTerminationState = told.LastTerminationState
	} else if told != nil && told.State.Terminated != nil {
		s.LastTerminationState = told.State
	}
	switch run.State {
	case cri.Running:
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(run.Started)}
		started := c.StartupProbe == nil || w.memory.Probes[run.ID].Started
		s.Started = &started
		s.Ready = started && (c.ReadinessProbe == nil || w.memory.Probes[run.ID].Ready)
		if init && !Sidecar(c) {
			s.Ready = false
		}
		if w.plan.Terminate != nil && w.plan.Terminate.Failure != nil {
			s.Ready = false
		}
		return s
	case cri.Created:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	default:
		s.State = w.ended(c, run, w.life.number)
		s.Ready = init && !Sidecar(c) && run.State == cri.Exited && run.ExitCode == 0
	}
	no := false
	s.Started = &no
	if wait, ok := w.waiting(c.Name); ok {
		if s.State.Terminated != nil {
			s.LastTerminationState = s.State
		}
		s.State = corev1.ContainerState{Waiting: &wait}
	} else if s.State.Terminated != nil && w.memory.Again[run.ID] && w.plan.Terminate == nil { // what has been told to have ended for good may not run again
		s.Ready, s.LastTerminationState = false, s.State
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	} else if s.State.Terminated != nil && w.life.past(run) && !w.plan.Restarting && w.plan.Terminate == nil {
		s.Ready, s.LastTerminationState = false, s.State
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: restartingAll, Message: removedToRestart}}
	}
	return s
}

// waiting says why a container that is to run does not.
func (w *writer) waiting(name string) (corev1.ContainerStateWaiting, bool) {
	if w.plan.Terminate != nil {
		return corev1.ContainerStateWaiting{}, false
	}
	for _, source := range []map[string]Trouble{w.plan.Waiting, w.memory.Trouble} {
		if t, ok := source[name]; ok && t.Reason != "" {
			return corev1.ContainerStateWaiting{Reason: t.Reason, Message: t.Message}, true
		}
	}
	return corev1.ContainerStateWaiting{}, false
}

// unseen describes a container of which the runtime holds no run: it waits,
// or it ran and its traces are gone.
func (w *writer) unseen(s *corev1.ContainerStatus, c *corev1.Container, told *corev1.ContainerStatus, init, initialized bool) {
	no := false
	s.Started = &no
	if told != nil && told.ContainerID != "" {
		s.RestartCount, s.ContainerID, s.Image, s.ImageID = told.RestartCount, told.ContainerID, told.Image, told.ImageID
		s.LastTerminationState = told.LastTerminationState
		if told.State.Terminated != nil {
			s.State, s.Ready = told.State, told.Ready
			s.Resources, s.AllocatedResources, s.User, s.StopSignal = told.Resources, told.AllocatedResources, told.User, told.StopSignal
			return
		}
		if told.State.Running != nil {
			lost := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 137, Reason: "ContainerStatusUnknown", StartedAt: told.State.Running.StartedAt, ContainerID: told.ContainerID,
				Message: lostAtTheEnd,
			}}
			if w.plan.Terminate != nil {
				s.State = lost
				return
			}
			s.LastTerminationState = lost
		}
	}
	if wait, ok := w.waiting(c.Name); ok {
		s.State.Waiting = &wait
		return
	}
	if init && !Sidecar(c) && active(w.pod, w.observed) { // who comes after it has been made
		s.State.Terminated, s.Ready = &corev1.ContainerStateTerminated{Reason: "Completed", Message: goneAndDone}, true
		return
	}
	reason := "ContainerCreating"
	if len(w.pod.Spec.InitContainers) > 0 && (init || !initialized) {
		reason = "PodInitializing"
	}
	s.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
}

func terminated(run *cri.Container) corev1.ContainerState {
	t := &corev1.ContainerStateTerminated{
		ExitCode: run.ExitCode, Reason: run.Reason, Message: run.Message, ContainerID: "containerd://" + run.ID,
	}
	t.StartedAt = metav1.NewTime(run.Started)
	if run.Started.IsZero() && run.State == cri.Exited {
		t.StartedAt = metav1.Unix(0, 0) // what could not be started began when the runtime's clock did, says a kubelet
	}
	if !run.Finished.IsZero() {
		t.FinishedAt = metav1.NewTime(run.Finished)
	}
	if run.State == cri.Unknown {
		t.ExitCode, t.Reason = 137, "ContainerStatusUnknown"
	}
	if t.Reason == "" {
		t.Reason = "Error"
		if t.ExitCode == 0 {
			t.Reason = "Completed"
		}
	}
	if t.ExitCode > 128 && t.ExitCode < 193 && run.State == cri.Exited {
		t.Signal = 0 // the runtime reports no signal of its own; the exit code says it
	}
	return corev1.ContainerState{Terminated: t}
}

// Equal reports whether two statuses say the same.
func Equal(a, b *corev1.PodStatus) bool {
	x, errX := a.Marshal()
	y, errY := b.Marshal()
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
