package pod

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/nodeagent/internal/cri"
)

// gatesNotReady is why a pod is not ready whose containers are.
const gatesNotReady = "ReadinessGatesNotReady"

// conditions writes the conditions that are the agent's.
func conditions(s *corev1.PodStatus, pod *corev1.Pod, observed *cri.Pod, now time.Time) {
	set := func(kind corev1.PodConditionType, ok bool, reason, message string) {
		setCondition(s, pod, now, corev1.PodCondition{Type: kind, Status: truth(ok), Reason: reason, Message: message})
	}
	sandbox := observed.Sandbox()
	set(corev1.PodReadyToStartContainers, sandbox != nil && sandbox.Ready && (pod.Spec.HostNetwork || len(sandbox.IPs) > 0), "", "")

	switch pending := pendingInit(pod, s); {
	case s.Phase == corev1.PodSucceeded:
		set(corev1.PodInitialized, true, "PodCompleted", "")
	case len(pending) == 0 || anyRan(s.ContainerStatuses):
		set(corev1.PodInitialized, true, "", "")
	default:
		set(corev1.PodInitialized, false, "ContainersNotInitialized", fmt.Sprintf("containers with incomplete status: %v", pending))
	}

	ready, reason, message := containersReady(pod, s)
	if ready {
		gates := ReadyByGates(pod, s)
		set(corev1.PodReady, gates.Status == corev1.ConditionTrue, gates.Reason, gates.Message)
	} else {
		set(corev1.PodReady, false, reason, message)
	}
	set(corev1.ContainersReady, ready, reason, message)
	set(corev1.PodScheduled, true, "", "") // it is here, whoever has bound it
}

func pendingInit(pod *corev1.Pod, s *corev1.PodStatus) []string {
	var names []string
	for i := range pod.Spec.InitContainers {
		status := s.InitContainerStatuses[i]
		if Sidecar(&pod.Spec.InitContainers[i]) {
			if status.Started == nil || !*status.Started {
				names = append(names, status.Name)
			}
		} else if !status.Ready {
			names = append(names, status.Name)
		}
	}
	return names
}

func containersReady(pod *corev1.Pod, s *corev1.PodStatus) (ready bool, reason, message string) {
	switch s.Phase {
	case corev1.PodSucceeded:
		return false, "PodCompleted", ""
	case corev1.PodFailed:
		return false, "PodFailed", ""
	}
	var names []string
	for i := range pod.Spec.InitContainers {
		if Sidecar(&pod.Spec.InitContainers[i]) && !s.InitContainerStatuses[i].Ready {
			names = append(names, s.InitContainerStatuses[i].Name)
		}
	}
	for _, c := range s.ContainerStatuses {
		if !c.Ready {
			names = append(names, c.Name)
		}
	}
	if len(names) > 0 {
		return false, "ContainersNotReady", fmt.Sprintf("containers with unready status: %v", names)
	}
	return true, "", ""
}

// ReadyByGates is the condition Ready of a pod whose containers are ready, by its readiness gates.
func ReadyByGates(pod *corev1.Pod, s *corev1.PodStatus) corev1.PodCondition {
	if gates := closedGates(pod, s); gates != "" {
		return corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: gatesNotReady, Message: gates}
	}
	return corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
}

// GatesTurned reports whether a pod's readiness gates are another way than its condition Ready says. One that is not ready for another reason is so by others.
func GatesTurned(p *corev1.Pod) bool {
	told := condition(&p.Status, corev1.PodReady)
	if told == nil || told.Status == corev1.ConditionFalse && told.Reason != gatesNotReady {
		return false
	}
	now := ReadyByGates(p, &p.Status)
	return told.Status != now.Status || now.Message != "" && told.Message != now.Message
}

// closedGates tells of the readiness gates that are not open, "" where all are.
func closedGates(pod *corev1.Pod, s *corev1.PodStatus) string {
	var closed []string
	for _, gate := range pod.Spec.ReadinessGates {
		switch c := condition(s, gate.ConditionType); {
		case c == nil:
			closed = append(closed, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", string(gate.ConditionType)))
		case c.Status != corev1.ConditionTrue:
			closed = append(closed, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", string(gate.ConditionType), c.Status))
		}
	}
	return strings.Join(closed, ", ")
}

func condition(s *corev1.PodStatus, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			return &s.Conditions[i]
		}
	}
	return nil
}

func setCondition(s *corev1.PodStatus, pod *corev1.Pod, now time.Time, c corev1.PodCondition) {
	c.ObservedGeneration = pod.Generation
	c.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	old := condition(s, c.Type)
	if old == nil {
		s.Conditions = append(s.Conditions, c)
		return
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	c.LastProbeTime = old.LastProbeTime
	*old = c
}

func truth(b bool) corev1.ConditionStatus {
	if b {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}
