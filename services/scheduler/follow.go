package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/device"
	"howdah.dev/services/scheduler/internal/filter"
	"howdah.dev/services/scheduler/internal/queue"
)

// podChanged keeps cache and queue true to a pod.
func (s *Server) podChanged(_ queue.Event, old, pod *corev1.Pod) {
	if pod == nil || pod.DeletionTimestamp != nil {
		defer s.leaving.Delete(cmp.Or(pod, old).UID) // the cache tells of it from then on
	}
	if pod == nil {
		s.queue.Delete(old.UID)
		s.cache.DeletePod(old.UID)
		s.volumes.poke() // it may wait for them
		switch {
		case old.Spec.NodeName != "":
			s.wakeAfter(queue.AssignedPodDelete, old)
		case old.Status.NominatedNodeName != "":
			s.queue.Wake(queue.AssignedPodDelete)
		}
		return
	}
	if pod.Spec.NodeName != "" {
		s.queue.Delete(pod.UID)
		less := s.cache.SetPod(pod)
		switch {
		case less && old != nil && ended(pod):
			s.wakeAfter(queue.AssignedPodDelete, pod)
		case less && old != nil: // it was resized
			s.wakeAfter(queue.AssignedPodScaleDown, pod)
		case old == nil || old.Spec.NodeName == "":
			s.queue.WakeSociable(queue.AssignedPodAdd, func(waiting *corev1.Pod) bool {
				return filter.Awaits(waiting, pod, s.constraints(waiting), s.cache.Namespaces())
			})
		case !maps.Equal(old.Labels, pod.Labels):
			s.queue.WakeSociable(queue.AssignedPodLabel, func(*corev1.Pod) bool { return true })
		}
		return
	}
	if !s.waits(pod) {
		if s.gated(pod) {
			s.queue.Gate(pod)
		} else {
			s.queue.Delete(pod.UID)
		}
		s.cache.Nominate(pod, "")
		return
	}
	s.nominationChanged(old, pod)
	s.enqueue(pod)
}

// enqueue has a pod tried, but not before its claims of devices are there: until then nothing is known of what it needs.
func (s *Server) enqueue(pod *corev1.Pod) {
	group := s.group(pod)
	if !device.UsesClaims(pod) || s.cache.Devices.View().Missing(pod) == "" {
		s.queue.Add(pod, group)
		return
	}
	s.queue.Hold(pod, group)
	if s.cache.Devices.View().Missing(pod) == "" { // they came before the queue could tell of them
		s.wakeFor("resource.k8s.io/ResourceClaimAdd", pod)
	}
}

// nominationChanged keeps the node for a pod that its status names. One that the scheduler has just decided on stays until the status tells
// of it.
func (s *Server) nominationChanged(old, pod *corev1.Pod) {
	var was string
	if old != nil {
		was = old.Status.NominatedNodeName
	}
	is := pod.Status.NominatedNodeName
	if was == is {
		return
	}
	s.cache.Nominate(pod, is)
	if was != "" {
		s.queue.Wake(queue.AssignedPodDelete) // others may have its room
	}
}

// waits reports whether a pod is to be placed.
func (s *Server) waits(pod *corev1.Pod) bool {
	return s.expects(pod) && len(pod.Spec.SchedulingGates) == 0
}

// gated reports whether a pod is to be placed once its scheduling gates are gone.
func (s *Server) gated(pod *corev1.Pod) bool {
	return s.expects(pod) && len(pod.Spec.SchedulingGates) > 0
}

func (s *Server) expects(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && s.responsible(pod) && pod.DeletionTimestamp == nil && !ended(pod)
}

func (s *Server) responsible(pod *corev1.Pod) bool { return s.profiles.has(pod.Spec.SchedulerName) }

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// namespaceChanged keeps the cache true to a namespace's labels, by which pods select whom they want to be near.
func (s *Server) namespaceChanged(event queue.Event, old, namespace *corev1.Namespace) {
	if namespace == nil {
		s.cache.DeleteNamespace(old.Name)
		return
	}
	s.cache.SetNamespace(namespace.Name, namespace.Labels)
	if old != nil && !maps.Equal(old.Labels, namespace.Labels) {
		s.queue.WakeSociable(event, func(*corev1.Pod) bool { return true })
	}
}

// nodeChanged keeps the cache true to a node and wakes pods where the change
// may let one in; a heartbeat does not.
func (s *Server) nodeChanged(event queue.Event, old, node *corev1.Node) {
	if node == nil {
		s.cache.DeleteNode(old.Name)
		s.volumes.poke()
		kin := cluster.Snapshot{Kin: s.cache.Kin()}
		s.queue.WakeFor(event, func(waiting *corev1.Pod, cause string) bool {
			return s.help(event, s.refusers(waiting, cause), func(refusers []filter.Filter) bool { return filter.LostBy(refusers, waiting, old, kin) })
		})
		return
	}
	s.cache.SetNode(node)
	if event != "" {
		s.volumes.poke()
		others := cluster.Snapshot{Devices: s.cache.Devices.View()}
		s.queue.WakeFor(event, func(waiting *corev1.Pod, cause string) bool {
			return s.help(event, s.refusers(waiting, cause), func(refusers []filter.Filter) bool {
				return filter.LetInBy(refusers, waiting, old, node, others)
			})
		})
	}
}

// wakeAfter wakes those for whom a pod that has left its node may have made room.
func (s *Server) wakeAfter(event queue.Event, gone *corev1.Pod) {
	s.queue.WakeFor(event, func(waiting *corev1.Pod, cause string) bool {
		return s.help(event, s.refusers(waiting, cause), func(refusers []filter.Filter) bool { return filter.FreedBy(refusers, waiting, gone) })
	})
}

// refusers are the filters, of a pod's profile, that a cause of its wait names.
func (s *Server) refusers(pod *corev1.Pod, cause string) []filter.Filter {
	var named []filter.Filter
	names := strings.Split(cause, causes)
	for _, f := range s.profiles.of(pod).Filters {
		if slices.Contains(names, f.Name) {
			named = append(named, f)
		}
	}
	return named
}

// causes stands between the filters that a cause names.
const causes = ","
