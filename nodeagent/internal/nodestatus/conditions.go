package nodestatus

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/nodeagent/internal/pressure"
)

// Conditions lays the agent's conditions over those that the node has.
func Conditions(old []corev1.NodeCondition, short pressure.Conditions, problems []string, now time.Time) []corev1.NodeCondition {
	out := append([]corev1.NodeCondition(nil), old...)
	set := func(kind corev1.NodeConditionType, status bool, reason, message string) {
		c := corev1.NodeCondition{
			Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message,
			LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
		}
		if status {
			c.Status = corev1.ConditionTrue
		}
		for i := range out {
			if out[i].Type == kind {
				if out[i].Status == c.Status {
					c.LastTransitionTime = out[i].LastTransitionTime
				}
				out[i] = c
				return
			}
		}
		out = append(out, c)
	}
	choose := func(kind corev1.NodeConditionType, bad bool, badReason, badMessage, goodReason, goodMessage string) {
		if bad {
			set(kind, true, badReason, badMessage)
			return
		}
		set(kind, false, goodReason, goodMessage)
	}
	choose(corev1.NodeMemoryPressure, short.Memory, "KubeletHasInsufficientMemory", "kubelet has insufficient memory available",
		"KubeletHasSufficientMemory", "kubelet has sufficient memory available")
	choose(corev1.NodeDiskPressure, short.Disk, "KubeletHasDiskPressure", "kubelet has disk pressure",
		"KubeletHasNoDiskPressure", "kubelet has no disk pressure")
	choose(corev1.NodePIDPressure, short.PID, "KubeletHasInsufficientPID", "kubelet has insufficient PID available",
		"KubeletHasSufficientPID", "kubelet has sufficient PID available")
	if len(problems) == 0 {
		set(corev1.NodeReady, true, "KubeletReady", "kubelet is posting ready status")
	} else {
		message := problems[0]
		if len(problems) > 1 {
			message = "[" + strings.Join(problems, ", ") + "]"
		}
		set(corev1.NodeReady, false, "KubeletNotReady", message)
	}
	return out
}

// differ reports whether two statuses say different things, heartbeats aside.
func differ(a, b *corev1.NodeStatus) bool {
	strip := func(s *corev1.NodeStatus) *corev1.NodeStatus {
		out := s.DeepCopy()
		for i := range out.Conditions {
			out.Conditions[i].LastHeartbeatTime = metav1.Time{}
			out.Conditions[i].LastTransitionTime = metav1.Time{}
		}
		return out
	}
	x, errX := strip(a).Marshal()
	y, errY := strip(b).Marshal()
	return errX != nil || errY != nil || string(x) != string(y)
}
