package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"howdah.dev/kit/object"
	"howdah.dev/services/internal/devicetaint"
	"howdah.dev/services/scheduler/internal/device"
	"howdah.dev/services/scheduler/internal/queue"
)

// followDevices keeps the cache true to the cluster's devices and the claims of them, and wakes pods with such claims where a change may let one in.
func (s *Server) followDevices() {
	slim := object.Option{Slim: dropManagedFields}
	object.InformerFor(s.informers, object.ResourceClaim, slim).AddHandler(handled(s, "resource.k8s.io/ResourceClaim", s.deviceClaimChanged))
	object.InformerFor(s.informers, object.ResourceSlice, slim).AddHandler(handled(s, "resource.k8s.io/ResourceSlice", s.sliceChanged))
	object.InformerFor(s.informers, object.DeviceClass, slim).AddHandler(handled(s, "resource.k8s.io/DeviceClass", s.deviceClassChanged))
	object.InformerFor(s.informers, devicetaint.Kind, slim).AddHandler(s.taintRuleChanged)
}

// wakeForDevices wakes those of the pods whose claims of devices are there.
func (s *Server) wakeForDevices(event queue.Event, match func(pod *corev1.Pod) bool) {
	view := s.cache.Devices.View()
	s.queue.WakeClaiming(event, func(pod *corev1.Pod) bool {
		return device.MayUse(pod) && match(pod) && view.Missing(pod) == ""
	})
}

// wakeFor wakes one pod, for the sake of its claims.
func (s *Server) wakeFor(event queue.Event, pod *corev1.Pod) {
	s.queue.WakeClaiming(event, func(p *corev1.Pod) bool { return p.UID == pod.UID })
}

func anyPod(*corev1.Pod) bool { return true }

func (s *Server) deviceClaimChanged(event queue.Event, old, claim *resourcev1.ResourceClaim) {
	defer s.volumes.poke() // a device may be ready
	if claim == nil {
		s.cache.Devices.DeleteClaim(old)
		if old.Status.Allocation != nil {
			s.wakeForDevices(event, anyPod)
		} else if device.IsSpecial(old) { // another can be made
			s.wakeForDevices(event, func(pod *corev1.Pod) bool { return named(pod, old) })
		}
		return
	}
	s.cache.Devices.SetClaim(claim)
	switch {
	case old != nil && old.Status.Allocation != nil && claim.Status.Allocation == nil: // others may have its devices
		s.wakeForDevices(event, anyPod)
	case old == nil || !equality.Semantic.DeepEqual(old.Status, claim.Status):
		s.wakeForDevices(event, func(pod *corev1.Pod) bool { return named(pod, claim) })
	}
}

// named reports whether a claim is one of a pod's, by its name.
func named(pod *corev1.Pod, claim *resourcev1.ResourceClaim) bool {
	return pod.Namespace == claim.Namespace && slices.Contains(device.Names(pod), claim.Name)
}

func (s *Server) sliceChanged(event queue.Event, old, slice *resourcev1.ResourceSlice) {
	if slice == nil {
		s.cache.Devices.DeleteSlice(old.Name)
	} else {
		s.cache.Devices.SetSlice(slice)
	}
	s.wakeForDevices(event, anyPod) // with one slice less, a pool may be complete
}

func (s *Server) deviceClassChanged(event queue.Event, old, class *resourcev1.DeviceClass) {
	if class == nil {
		s.cache.Devices.DeleteClass(old.Name)
		if old.Spec.ExtendedResourceName != nil { // an older class may be meant now
			s.wakeForDevices(event, anyPod)
		}
		return
	}
	s.cache.Devices.SetClass(class)
	if old == nil || !equality.Semantic.DeepEqual(old.Spec, class.Spec) {
		s.wakeForDevices(event, anyPod)
	}
}

// taintRuleChanged has the rules count that taint devices. Less of them may let pods in; a new one does not.
func (s *Server) taintRuleChanged(old, rule *devicetaint.Rule) {
	switch {
	case rule == nil:
		s.cache.Devices.DeleteRule(old.Name)
	case old != nil && equality.Semantic.DeepEqual(old.Spec, rule.Spec): // its status
		return
	default:
		s.cache.Devices.SetRule(rule)
	}
	if old != nil {
		s.wakeForDevices("resource.k8s.io/ResourceSliceUpdate", anyPod) // so Kubernetes tells of it
	}
}
