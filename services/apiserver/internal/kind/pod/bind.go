package pod

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	bindingKind = corev1.SchemeGroupVersion.WithKind("Binding").GroupKind()
)

// bind assigns a pod to the node that a Binding names. It fails with 422 for a
// bad Binding and with 409 for a pod that may not be assigned any more.
func bind(p *corev1.Pod, b *corev1.Binding, now time.Time) error {
	if errs := ValidateBinding(b); len(errs) > 0 {
		return apierrors.NewInvalid(bindingKind, b.Name, errs)
	}
	conflict := func(format string, args ...any) error {
		return apierrors.NewConflict(corev1.Resource("pods/binding"), p.Name, fmt.Errorf(format, args...))
	}
	switch {
	case b.UID != "" && b.UID != p.UID:
		return moved(p, "UID in precondition: %v, UID in object meta: %v", b.UID, p.UID)
	case b.ResourceVersion != "" && b.ResourceVersion != p.ResourceVersion:
		return moved(p, "ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", b.ResourceVersion, p.ResourceVersion)
	case p.DeletionTimestamp != nil:
		return conflict("pod %s is being deleted, cannot be assigned to a host", p.Name)
	case p.Spec.NodeName != "":
		return conflict("pod %v is already assigned to node %q", p.Name, p.Spec.NodeName)
	case len(p.Spec.SchedulingGates) > 0:
		return conflict("pod %v has non-empty .spec.schedulingGates", p.Name)
	}
	p.Spec.NodeName = b.Target.Name
	p.Generation++
	if len(b.Annotations) > 0 {
		p.Annotations = merged(p.Annotations, b.Annotations)
	}
	// The scheduler may add the topology of the node it chose.
	if len(b.Labels) > 0 {
		p.Labels = merged(p.Labels, b.Labels)
	}
	setScheduled(&p.Status, metav1.NewTime(now))
	p.Status.NominatedNodeName = "" // it has what it waited for
	return nil
}

// moved is the 409 of a Binding that is meant for another pod, or another state of it, in the words of Kubernetes' store.
func moved(p *corev1.Pod, format string, args ...any) error {
	return apierrors.NewConflict(corev1.Resource("pods"), p.Name, fmt.Errorf("StorageError: invalid object, Code: 4, Key: /registry/pods/%s/%s, "+
		"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "+format, append([]any{p.Namespace, p.Name}, args...)...))
}

// ValidateBinding returns what is wrong with a Binding.
func ValidateBinding(b *corev1.Binding) field.ErrorList {
	var errs field.ErrorList
	target := field.NewPath("target")
	if b.Target.Kind != "" && b.Target.Kind != "Node" {
		errs = append(errs, field.NotSupported(target.Child("kind"), b.Target.Kind, []string{"Node", "<empty>"}))
	}
	if b.Target.Name == "" {
		errs = append(errs, field.Required(target.Child("name"), ""))
	}
	return errs // whether there can be a node of that name is not asked
}

// setScheduled says that the pod has a node; the rest of the condition, as the
// generation that it was observed at, goes with what it says no longer.
func setScheduled(s *corev1.PodStatus, now metav1.Time) {
	done := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now}
	for i := range s.Conditions {
		if s.Conditions[i].Type == corev1.PodScheduled {
			if s.Conditions[i].Status == corev1.ConditionTrue {
				done.LastTransitionTime = s.Conditions[i].LastTransitionTime
			}
			s.Conditions[i] = done
			return
		}
	}
	s.Conditions = append(s.Conditions, done)
}

func merged(to, more map[string]string) map[string]string {
	if to == nil {
		to = make(map[string]string, len(more))
	}
	maps.Copy(to, more)
	return to
}
