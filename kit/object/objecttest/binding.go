package objecttest

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// bind assigns a pod to a node, once, and says so in its conditions. s.mu is held.
func (s *Server) bind(ctx context.Context, prefix string, r *apiv1.CreateRequest, binding *corev1.Binding) (object.Object, error) {
	old, ok := s.objects[key(prefix, r.GetNamespace(), r.GetName())].(*corev1.Pod)
	if !ok {
		return nil, apierrors.NewNotFound(groupResource(r), r.GetName())
	}
	refuse := func(format string, args ...any) error {
		return apierrors.NewConflict(groupResource(r), r.GetName(), fmt.Errorf(format, args...))
	}
	switch {
	case binding.UID != "" && binding.UID != old.UID:
		return nil, refuse("Precondition failed: UID in precondition: %v, UID in object meta: %v", binding.UID, old.UID)
	case old.DeletionTimestamp != nil:
		return nil, refuse("pod %s is being deleted, cannot be assigned to a host", old.Name)
	case old.Spec.NodeName != "":
		return nil, refuse("pod %s is already assigned to node %q", old.Name, old.Spec.NodeName)
	}
	pod := old.DeepCopy()
	pod.Spec.NodeName = binding.Target.Name
	pod.Status.NominatedNodeName = ""
	scheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.now())}
	for i, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			pod.Status.Conditions[i] = scheduled
			return s.record("MODIFIED", prefix, pod, old, obs.Traceparent(ctx)), nil
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, scheduled)
	return s.record("MODIFIED", prefix, pod, old, obs.Traceparent(ctx)), nil
}
