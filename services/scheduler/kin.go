package scheduler

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
	"howdah.dev/services/scheduler/internal/kin"
	"howdah.dev/services/scheduler/internal/queue"
	"howdah.dev/services/scheduler/internal/spread"
)

// followKin keeps the cache true to those who select pods. Of them, their selectors are kept.
func (s *Server) followKin() {
	object.InformerFor(s.informers, object.Service, object.Option{Slim: func(o object.Object) {
		service := o.(*corev1.Service)
		service.ManagedFields, service.Spec, service.Status = nil, corev1.ServiceSpec{Selector: service.Spec.Selector}, corev1.ServiceStatus{}
	}}).AddHandler(handled(s, "Service", s.serviceChanged))
	followController(s, "apps/ReplicaSet", object.ReplicaSet, func(o *appsv1.ReplicaSet) *metav1.LabelSelector { return o.Spec.Selector }, func(o *appsv1.ReplicaSet) {
		o.Spec, o.Status = appsv1.ReplicaSetSpec{Selector: o.Spec.Selector}, appsv1.ReplicaSetStatus{}
	})
	followController(s, "apps/StatefulSet", object.StatefulSet, func(o *appsv1.StatefulSet) *metav1.LabelSelector { return o.Spec.Selector }, func(o *appsv1.StatefulSet) {
		o.Spec, o.Status = appsv1.StatefulSetSpec{Selector: o.Spec.Selector}, appsv1.StatefulSetStatus{}
	})
	followController(s, "ReplicationController", object.ReplicationController, func(o *corev1.ReplicationController) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: o.Spec.Selector}
	}, func(o *corev1.ReplicationController) {
		o.Spec, o.Status = corev1.ReplicationControllerSpec{Selector: o.Spec.Selector}, corev1.ReplicationControllerStatus{}
	})
}

func (s *Server) serviceChanged(event queue.Event, old, service *corev1.Service) {
	switch {
	case service == nil:
		s.cache.ChangeKin(func(v *kin.View) { v.DeleteService(old) })
	case old != nil && maps.Equal(old.Spec.Selector, service.Spec.Selector):
		return
	default:
		s.cache.ChangeKin(func(v *kin.View) { v.SetService(service) })
	}
	s.wakeDefaulted(event)
}

// followController keeps the cache true to the controllers of a kind. slim leaves of one what its selector needs.
func followController[T interface {
	comparable
	object.Object
}](s *Server, label string, kind object.Kind[T], selector func(T) *metav1.LabelSelector, slim func(T)) {
	var none T
	object.InformerFor(s.informers, kind, object.Option{Slim: func(o object.Object) {
		o.SetManagedFields(nil)
		slim(o.(T))
	}}).AddHandler(handled(s, label, func(event queue.Event, old, now T) {
		var was, is types.UID
		if old != none {
			was = old.GetUID()
		}
		if now != none {
			is = now.GetUID()
		}
		if was == is && equality.Semantic.DeepEqual(selector(old), selector(now)) {
			return
		}
		s.cache.ChangeKin(func(v *kin.View) {
			if was != "" {
				v.DeleteController(was)
			}
			if is != "" {
				v.SetController(is, selector(now))
			}
		})
		s.wakeDefaulted(event)
	}))
}

// defaulted reports whether a pod is refused nodes for who is selected with it: by constraints that are not its own, or because it is to be with them.
func (s *Server) defaulted(pod *corev1.Pod) bool {
	p := s.profiles.of(pod)
	return p.Together || len(p.Spread) > 0 && len(pod.Spec.TopologySpreadConstraints) == 0
}

// wakeDefaulted wakes those pods: who is selected with them has changed.
func (s *Server) wakeDefaulted(event queue.Event) { s.queue.WakeSociable(event, s.defaulted) }

// constraints are those of a pod that refuse nodes.
func (s *Server) constraints(pod *corev1.Pod) []spread.Constraint {
	return spread.Of(pod, corev1.DoNotSchedule, s.profiles.of(pod).Spread, s.cache.Kin())
}
