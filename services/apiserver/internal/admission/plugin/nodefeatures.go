package plugin

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"

	"howdah.dev/services/apiserver/internal/admission"
)

// NodeDeclaredFeatureValidator refuses changes of pods that take what their node does not say it can do.
type NodeDeclaredFeatureValidator struct {
	Objects admission.Objects
	// Version is that of the API: what all nodes can do by then is not asked for.
	Version *version.Version
}

// Name implements admission.Plugin.
func (*NodeDeclaredFeatureValidator) Name() string { return "NodeDeclaredFeatureValidator" }

// Handles implements admission.Plugin. No other change of a pod takes any of the features that nodes declare.
func (*NodeDeclaredFeatureValidator) Handles(a *admission.Attributes) bool { return podResize(a) }

// Validate implements admission.Validator.
func (p *NodeDeclaredFeatureValidator) Validate(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	old, okOld := a.Old.(*corev1.Pod)
	if !ok || !okOld || pod.Spec.NodeName == "" {
		return nil
	}
	framework := nodedeclaredfeatures.DefaultFramework
	needed, err := framework.InferForPodUpdate(
		&nodedeclaredfeatures.PodInfo{Spec: &old.Spec, Status: &old.Status}, &nodedeclaredfeatures.PodInfo{Spec: &pod.Spec, Status: &pod.Status}, p.Version)
	if err != nil {
		return a.Forbidden(fmt.Errorf("failed to infer pod feature requirements: %w", err))
	}
	if needed.IsEmpty() {
		return nil
	}
	node, err := nodeOf(ctx, p.Objects, a, pod.Spec.NodeName)
	if err != nil {
		return err
	}
	result, err := framework.MatchNode(needed, node)
	if err != nil {
		return a.Forbidden(fmt.Errorf("failed to match pod requirements against node %q: %w", node.Name, err))
	}
	if !result.IsMatch {
		return a.Forbidden(fmt.Errorf("pod update requires features %s which are not available on node %q",
			strings.Join(result.UnsatisfiedRequirements, ", "), node.Name))
	}
	return nil
}
