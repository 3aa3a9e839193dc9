package plugin

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/services/apiserver/internal/admission"
)

// builtIn are the classes that every cluster has, also in the moments before they are made.
var builtIn = map[string]int32{"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}

// Priority resolves a pod's priorityClassName to its priority, and lets no second class be the default one.
type Priority struct{ Objects admission.Objects }

// Name implements admission.Plugin.
func (*Priority) Name() string { return "Priority" }

// Handles implements admission.Plugin.
func (*Priority) Handles(a *admission.Attributes) bool {
	if a.Subresource != "" || a.Operation != admission.Create && a.Operation != admission.Update {
		return false
	}
	return a.Is("", "pods") || a.Is(schedulingv1.GroupName, "priorityclasses")
}

// Admit implements admission.Mutator.
func (p *Priority) Admit(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	if a.Operation == admission.Update {
		keepPriority(a, pod)
		return nil
	}
	value, policy, err := p.resolve(ctx, a, pod)
	if err != nil {
		return err
	}
	if pod.Spec.Priority != nil && *pod.Spec.Priority != value {
		return a.Forbidden(fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name",
			*pod.Spec.Priority, value))
	}
	pod.Spec.Priority = &value
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy != policy {
		return a.Forbidden(fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name",
			*pod.Spec.PreemptionPolicy, policy))
	}
	pod.Spec.PreemptionPolicy = &policy
	return nil
}

// keepPriority fills in what an update leaves out, as one that was made from a template.
func keepPriority(a *admission.Attributes, pod *corev1.Pod) {
	old, ok := a.Old.(*corev1.Pod)
	if !ok {
		return
	}
	if pod.Spec.Priority == nil {
		pod.Spec.Priority = old.Spec.Priority
	}
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = old.Spec.PreemptionPolicy
	}
}

// Validate implements admission.Validator.
func (p *Priority) Validate(ctx context.Context, a *admission.Attributes) error {
	class, ok := a.Object.(*schedulingv1.PriorityClass)
	if !ok || !class.GlobalDefault {
		return nil
	}
	if other := p.standard(ctx); other != nil && other.Name != class.Name {
		return a.Forbidden(fmt.Errorf("PriorityClass %v is already marked as default. Only one default can exist", other.Name))
	}
	return nil
}

func (p *Priority) resolve(ctx context.Context, a *admission.Attributes, pod *corev1.Pod) (int32, corev1.PreemptionPolicy, error) {
	name := pod.Spec.PriorityClassName
	if name == "" {
		class := p.standard(ctx)
		if class == nil {
			return 0, corev1.PreemptLowerPriority, nil
		}
		pod.Spec.PriorityClassName = class.Name
		return class.Value, policyOf(class), nil
	}
	obj, err := p.Objects.Get(ctx, schedulingv1.GroupName, "priorityclasses", "", name)
	if apierrors.IsNotFound(err) {
		if value, ok := builtIn[name]; ok {
			return value, corev1.PreemptLowerPriority, nil
		}
		return 0, "", a.Forbidden(fmt.Errorf("no PriorityClass with name %v was found", name))
	}
	if err != nil {
		return 0, "", err
	}
	class, ok := obj.(*schedulingv1.PriorityClass)
	if !ok {
		return 0, "", fmt.Errorf("priority class %s is a %T", name, obj)
	}
	return class.Value, policyOf(class), nil
}

// standard returns the class of pods that name none, or nil: the lowest of those that say so.
func (p *Priority) standard(ctx context.Context) *schedulingv1.PriorityClass {
	var found *schedulingv1.PriorityClass
	for _, obj := range p.Objects.List(ctx, schedulingv1.GroupName, "priorityclasses", "") {
		if class, ok := obj.(*schedulingv1.PriorityClass); ok && class.GlobalDefault && (found == nil || class.Value < found.Value) {
			found = class
		}
	}
	return found
}

func policyOf(class *schedulingv1.PriorityClass) corev1.PreemptionPolicy {
	if class.PreemptionPolicy != nil {
		return *class.PreemptionPolicy
	}
	return corev1.PreemptLowerPriority
}
