package plugin

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"howdah.dev/services/apiserver/internal/admission"
)

// The causes of a refusal, by which autoscalers know that it is of no use to ask again.
const (
	causeNodeCapacity        metav1.CauseType = "NodeCapacity"
	causeUnsupportedPlatform metav1.CauseType = "UnsupportedPlatform"
)

// PodResizeValidator refuses to give a pod more than its node has.
type PodResizeValidator struct{ Objects admission.Objects }

// Name implements admission.Plugin.
func (*PodResizeValidator) Name() string { return "PodResizeValidator" }

// Handles implements admission.Plugin.
func (*PodResizeValidator) Handles(a *admission.Attributes) bool { return podResize(a) }

func podResize(a *admission.Attributes) bool {
	return a.Operation == admission.Update && a.Subresource == "resize" && a.Is("", "pods")
}

// Validate implements admission.Validator.
func (p *PodResizeValidator) Validate(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	old, okOld := a.Old.(*corev1.Pod)
	if !ok || !okOld || pod.Spec.NodeName == "" || sameResources(&old.Spec, &pod.Spec) {
		return nil
	}
	node, err := nodeOf(ctx, p.Objects, a, pod.Spec.NodeName)
	if err != nil {
		return err
	}
	if os, ok := node.Labels[corev1.LabelOSStable]; ok && os != string(corev1.Linux) {
		return caused(a.Forbidden(fmt.Errorf("pod resize is only supported on linux nodes, node %q is %q", node.Name, os)), causeUnsupportedPlatform)
	}
	if problem := beyond(pod, node); problem != "" {
		return caused(a.Forbidden(fmt.Errorf("node didn't have enough allocatable resources: %s", problem)), causeNodeCapacity)
	}
	return nil
}

// nodeOf returns a node; that it is not there is a refusal.
func nodeOf(ctx context.Context, objects admission.Objects, a *admission.Attributes, name string) (*corev1.Node, error) {
	obj, err := objects.Get(ctx, "", "nodes", "", name)
	if apierrors.IsNotFound(err) {
		return nil, a.Forbidden(fmt.Errorf("node %q not found", name))
	}
	if err != nil {
		return nil, err
	}
	node, ok := obj.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("node %q is a %T", name, obj)
	}
	return node, nil
}

// caused adds a cause to a refusal.
func caused(err error, cause metav1.CauseType) error {
	if status, ok := err.(*apierrors.StatusError); ok && status.ErrStatus.Details != nil {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
	}
	return err
}

// beyond says which of the pod's requests are more than all that the node can give out, be it alone there or not.
func beyond(pod *corev1.Pod, node *corev1.Node) string {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	var problems []string
	if want, have := requests.Cpu().MilliValue(), node.Status.Allocatable.Cpu().MilliValue(); want > have {
		problems = append(problems, fmt.Sprintf("cpu, requested: %d, allocatable: %d", want, have))
	}
	if want, have := requests.Memory().Value(), node.Status.Allocatable.Memory().Value(); want > have {
		problems = append(problems, fmt.Sprintf("memory, requested: %d, allocatable: %d", want, have))
	}
	return strings.Join(problems, "; ")
}

// sameResources reports whether nobody gets more or less.
func sameResources(old, now *corev1.PodSpec) bool {
	return equality.Semantic.DeepEqual(old.Resources, now.Resources) &&
		sameOfEach(old.InitContainers, now.InitContainers) && sameOfEach(old.Containers, now.Containers)
}

func sameOfEach(old, now []corev1.Container) bool {
	if len(old) != len(now) {
		return false
	}
	for i := range now {
		if !equality.Semantic.DeepEqual(old[i].Resources, now[i].Resources) {
			return false
		}
	}
	return true
}
