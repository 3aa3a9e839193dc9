package simulate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/podspec"
	"howdah.dev/nodeagent/internal/pod"
)

// conditions of a pod are those that its node writes.
var conditions = []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady, corev1.PodScheduled}

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
	yes := true
	s.InitContainerStatuses, s.ContainerStatuses = nil, nil
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		status := corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: "simulated://" + c.Image, ContainerID: "simulated://" + string(p.UID) + "/" + c.Name, Ready: true}
		if pod.Sidecar(c) {
			status.Started = &yes
			status.State.Running = &corev1.ContainerStateRunning{StartedAt: at}
		} else {
			status.State.Terminated = &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: at, FinishedAt: at, ContainerID: status.ContainerID}
		}
		s.InitContainerStatuses = append(s.InitContainerStatuses, status)
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: "simulated://" + c.Image, ContainerID: "simulated://" + string(p.UID) + "/" + c.Name,
			Ready: true, Started: &yes, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
		})
	}
	pod.GiveAll(&s, p)
	return s
}

// changed is the status of a running pod whose spec is another than the one that its status is about. What others have written of its
// containers stays.
func changed(p *corev1.Pod) corev1.PodStatus {
	s := *p.Status.DeepCopy()
	s.ObservedGeneration = p.Generation
	for i := range s.Conditions {
		if slices.Contains(conditions, s.Conditions[i].Type) {
			s.Conditions[i].ObservedGeneration = p.Generation
		}
	}
	pod.GiveAll(&s, p)
	return s
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
