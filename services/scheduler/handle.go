package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"howdah.dev/kit/object"
	"howdah.dev/services/scheduler/internal/filter"
	"howdah.dev/services/scheduler/internal/queue"
)

// handled follows the changes of a kind, tells which of Kubernetes' events each is, and how long it took to follow.
func handled[T interface {
	comparable
	object.Object
}](s *Server, kind string, follow func(event queue.Event, old, now T)) func(old, now T) {
	added, updated, deleted := queue.Event(kind+"Add"), queue.Event(kind+"Update"), queue.Event(kind+"Delete")
	return func(old, now T) {
		var none T
		event := updated
		switch none {
		case now:
			event = deleted
		case old:
			event = added
		}
		began := s.cfg.Clock.Now()
		follow(event, old, now)
		s.metrics.handled(event, s.cfg.Clock.Since(began))
	}
}

// handledAs does the same for kinds with events by what has changed.
func handledAs[T object.Object](s *Server, as func(old, now T) queue.Event, follow func(event queue.Event, old, now T)) func(old, now T) {
	return func(old, now T) {
		event, began := as(old, now), s.cfg.Clock.Now()
		follow(event, old, now)
		s.metrics.handled(event, s.cfg.Clock.Since(began))
	}
}

// podEvent is what a change of a pod is, "" where it concerns nobody: one that has ended is gone already, and one without a node may be another
// scheduler's.
func (s *Server) podEvent(old, pod *corev1.Pod) queue.Event {
	switch {
	case old != nil && ended(old), old == nil && ended(pod):
		return ""
	case pod == nil || ended(pod):
		if old.Spec.NodeName != "" {
			return queue.AssignedPodDelete
		}
		return s.own(old, queue.PodDelete)
	case pod.Spec.NodeName == "" && old == nil:
		return s.own(pod, queue.PodAdd)
	case pod.Spec.NodeName == "":
		return s.own(pod, queue.PodUpdate)
	case old == nil || old.Spec.NodeName == "":
		return queue.AssignedPodAdd
	}
	return queue.AssignedPodUpdate
}

func (s *Server) own(pod *corev1.Pod, event queue.Event) queue.Event {
	if s.responsible(pod) {
		return event
	}
	return ""
}

// nodeEvent is what a change of a node is, "" where it changes nothing for pods: the first that Kubernetes would tell.
func nodeEvent(old, node *corev1.Node) queue.Event {
	switch {
	case node == nil:
		return "NodeDelete"
	case old == nil:
		return "NodeAdd"
	case old.Spec.Unschedulable != node.Spec.Unschedulable, !equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints):
		return "NodeUpdateNodeTaint"
	case !equality.Semantic.DeepEqual(old.Status.Allocatable, node.Status.Allocatable):
		return "NodeUpdateNodeAllocatable"
	case !equality.Semantic.DeepEqual(old.Labels, node.Labels):
		return "NodeUpdateNodeLabel"
	case !equality.Semantic.DeepEqual(old.Status.DeclaredFeatures, node.Status.DeclaredFeatures):
		return "NodeUpdateNodeDeclaredFeature"
	}
	return ""
}

// help asks filters that refused a pod whether an event helps it.
func (s *Server) help(event queue.Event, refusers []filter.Filter, helps func(refusers []filter.Filter) bool) bool {
	if !s.metrics.timed() {
		return helps(refusers)
	}
	for i := range refusers {
		began := s.cfg.Clock.Now()
		helped := helps(refusers[i : i+1])
		s.metrics.hinted(refusers[i].Name, event, helped, s.cfg.Clock.Since(began))
		if helped {
			return true
		}
	}
	return false
}
