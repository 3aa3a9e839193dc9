package simulate

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/podspec"
	"howdah.dev/nodeagent/internal/pod"
)

// conditions of a pod are those that its node writes, beside Ready, which readiness gates have a say in.
var conditions = []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodScheduled}

// running is the status of a pod all of whose containers run and are ready.
func running(p *corev1.Pod, podIP, hostIP string, now time.Time) corev1.PodStatus {
	at := metav1.NewTime(now).Rfc3339Copy()
	s := *p.Status.DeepCopy()
	s.Phase, s.QOSClass, s.ObservedGeneration = corev1.PodRunning, podspec.QOSClass(p), p.Generation
	s.HostIP, s.HostIPs = hostIP, []corev1.HostIP{{IP: hostIP}}
	if p.Spec.HostNetwork {
		podIP = hostIP
	}
	s.PodIP, s.PodIPs = podIP, []corev1.PodIP{{IP: podIP}}
	if s.StartTime == nil {
		s.StartTime = &at
	}
	for _, kind := range conditions {
		set(&s, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: at, ObservedGeneration: p.Generation})
	}
	set(&s, readiness(p, &s, at))
	s.InitContainerStatuses, s.ContainerStatuses = nil, nil
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		status := started(p, c, at, 0)
		if !pod.Sidecar(c) {
			status.Started, status.State = nil, ended(&status, at)
		}
		s.InitContainerStatuses = append(s.InitContainerStatuses, status)
	}
	for i := range p.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, started(p, &p.Spec.Containers[i], at, 0))
	}
	debug(&s, p, at)
	pod.GiveAll(&s, p)
	return s
}

// changed is the status of a running pod whose spec is another than the one that its status is about, or whose readiness gates turned. Containers whose image is
// another start again; what others have written of the rest stays.
func changed(p *corev1.Pod, now time.Time) corev1.PodStatus {
	at := metav1.NewTime(now).Rfc3339Copy()
	s := *p.Status.DeepCopy()
	s.ObservedGeneration = p.Generation
	for i := range s.Conditions {
		if slices.Contains(conditions, s.Conditions[i].Type) || s.Conditions[i].Type == corev1.PodReady {
			s.Conditions[i].ObservedGeneration = p.Generation
		}
	}
	if pod.GatesTurned(p) {
		set(&s, readiness(p, &s, at))
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; pod.Sidecar(c) {
			replace(s.InitContainerStatuses, p, c, at)
		}
	}
	for i := range p.Spec.Containers {
		replace(s.ContainerStatuses, p, &p.Spec.Containers[i], at)
	}
	debug(&s, p, at)
	pod.GiveAll(&s, p)
	return s
}

// readiness is whether a pod all of whose containers are ready is so itself.
func readiness(p *corev1.Pod, s *corev1.PodStatus, at metav1.Time) corev1.PodCondition {
	c := pod.ReadyByGates(p, s)
	c.LastTransitionTime, c.ObservedGeneration = at, p.Generation
	return c
}

// started is the status of a container that runs, after so many restarts. Each run has an identity of its own.
func started(p *corev1.Pod, c *corev1.Container, at metav1.Time, restarts int32) corev1.ContainerStatus {
	yes := true
	id := "simulated://" + string(p.UID) + "/" + c.Name
	if restarts > 0 {
		id += fmt.Sprintf("/%d", restarts)
	}
	return corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: "simulated://" + c.Image, ContainerID: id, RestartCount: restarts,
		Ready: true, Started: &yes, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
	}
}

// ended is the state of a container that ran and ended well.
func ended(s *corev1.ContainerStatus, at metav1.Time) corev1.ContainerState {
	state := &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: at, FinishedAt: at, ContainerID: s.ContainerID}
	if s.State.Running != nil {
		state.StartedAt = s.State.Running.StartedAt
	}
	return corev1.ContainerState{Terminated: state}
}

// replace starts a container again whose image is another than that which runs.
func replace(statuses []corev1.ContainerStatus, p *corev1.Pod, c *corev1.Container, at metav1.Time) {
	for i := range statuses {
		told := &statuses[i]
		if told.Name != c.Name || told.Image == c.Image || told.State.Running == nil {
			continue
		}
		last := ended(told, at)
		*told = started(p, c, at, told.RestartCount+1)
		told.LastTerminationState = last
	}
}

// debug starts the ephemeral containers that nothing is said of yet. They are never ready.
func debug(s *corev1.PodStatus, p *corev1.Pod, at metav1.Time) {
	for i := range p.Spec.EphemeralContainers {
		c := (*corev1.Container)(&p.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		if slices.ContainsFunc(s.EphemeralContainerStatuses, func(told corev1.ContainerStatus) bool { return told.Name == c.Name }) {
			continue
		}
		status := started(p, c, at, 0)
		status.Ready, status.Started = false, nil
		s.EphemeralContainerStatuses = append(s.EphemeralContainerStatuses, status)
	}
}

func set(s *corev1.PodStatus, c corev1.PodCondition) {
	for i := range s.Conditions {
		if s.Conditions[i].Type == c.Type {
			if s.Conditions[i].Status == c.Status {
				c.LastTransitionTime = s.Conditions[i].LastTransitionTime
			}
			s.Conditions[i] = c
			return
		}
	}
	s.Conditions = append(s.Conditions, c)
}
