package plugin

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/services/apiserver/internal/admission"
)

// RuntimeClass gives pods the overhead of their runtime class, and sends them to the nodes that have it.
type RuntimeClass struct{ Objects admission.Objects }

// Name implements admission.Plugin.
func (*RuntimeClass) Name() string { return "RuntimeClass" }

// Handles implements admission.Plugin.
func (*RuntimeClass) Handles(a *admission.Attributes) bool { return podCreate(a) }

// Admit implements admission.Mutator.
func (p *RuntimeClass) Admit(ctx context.Context, a *admission.Attributes) error {
	pod, class, err := p.class(ctx, a)
	if err != nil || class == nil {
		return err
	}
	if class.Overhead != nil {
		if pod.Spec.Overhead != nil && !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return a.Forbidden(errors.New("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"))
		}
		pod.Spec.Overhead = class.Overhead.PodFixed.DeepCopy()
	}
	if class.Scheduling == nil {
		return nil
	}
	for key, value := range class.Scheduling.NodeSelector {
		if own, set := pod.Spec.NodeSelector[key]; set && own != value {
			return a.Forbidden(fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, value, key, own))
		}
	}
	for key, value := range class.Scheduling.NodeSelector {
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		pod.Spec.NodeSelector[key] = value
	}
	pod.Spec.Tolerations = mergeTolerations(pod.Spec.Tolerations, class.Scheduling.Tolerations)
	return nil
}

// Validate implements admission.Validator.
func (p *RuntimeClass) Validate(ctx context.Context, a *admission.Attributes) error {
	pod, class, err := p.class(ctx, a)
	if err != nil || pod == nil {
		return err
	}
	if class != nil && class.Overhead != nil {
		if !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return a.Forbidden(errors.New("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"))
		}
		return nil
	}
	if pod.Spec.Overhead != nil {
		return a.Forbidden(errors.New("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"))
	}
	return nil
}

// class returns the pod and the class that it names; nil where it names none.
func (p *RuntimeClass) class(ctx context.Context, a *admission.Attributes) (*corev1.Pod, *nodev1.RuntimeClass, error) {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || pod.Spec.RuntimeClassName == nil {
		return pod, nil, nil
	}
	if err := unaskable(*pod.Spec.RuntimeClassName); err != nil {
		return nil, nil, err
	}
	obj, err := p.Objects.Get(ctx, nodev1.GroupName, "runtimeclasses", "", *pod.Spec.RuntimeClassName)
	if apierrors.IsNotFound(err) {
		return nil, nil, a.Forbidden(fmt.Errorf("pod rejected: RuntimeClass %q not found", *pod.Spec.RuntimeClassName))
	}
	if err != nil {
		return nil, nil, err
	}
	class, ok := obj.(*nodev1.RuntimeClass)
	if !ok {
		return nil, nil, fmt.Errorf("runtime class %s is a %T", *pod.Spec.RuntimeClassName, obj)
	}
	return pod, class, nil
}
