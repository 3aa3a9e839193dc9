package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// podChanged keeps cache and queue true to a pod.
func (s *Server) podChanged(old, pod *corev1.Pod) {
	if pod == nil {
		s.queue.Delete(old.UID)
		s.cache.DeletePod(old.UID)
		if old.Spec.NodeName != "" {
			s.queue.Wake()
		}
		return
	}
	if pod.Spec.NodeName != "" {
		s.queue.Delete(pod.UID)
		s.cache.SetPod(pod)
		if old != nil && !ended(old) && ended(pod) {
			s.queue.Wake()
		}
		return
	}
	if !s.responsible(pod) || pod.DeletionTimestamp != nil || ended(pod) || len(pod.Spec.SchedulingGates) > 0 {
		s.queue.Delete(pod.UID)
		return
	}
	s.queue.Add(pod, s.group(pod))
}

func (s *Server) responsible(pod *corev1.Pod) bool { return pod.Spec.SchedulerName == s.cfg.Name }

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// nodeChanged keeps the cache true to a node and wakes pods where the change
// may let one in; a heartbeat does not.
func (s *Server) nodeChanged(old, node *corev1.Node) {
	if node == nil {
		s.cache.DeleteNode(old.Name)
		return
	}
	s.cache.SetNode(node)
	if old == nil || old.Spec.Unschedulable != node.Spec.Unschedulable ||
		!equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) ||
		!equality.Semantic.DeepEqual(old.Labels, node.Labels) ||
		!equality.Semantic.DeepEqual(old.Status.Allocatable, node.Status.Allocatable) {
		s.queue.Wake()
	}
}
