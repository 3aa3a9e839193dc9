package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"howdah.dev/services/apiserver/internal/admission"
)

// nodeSelectorAnnotation is a namespace's own node selector.
const nodeSelectorAnnotation = "scheduler.alpha.kubernetes.io/node-selector"

// PodNodeSelector keeps the pods of a namespace to nodes with certain labels.
type PodNodeSelector struct {
	Objects admission.Objects
	// Selectors are by namespace the labels that its pods may ask for; "clusterDefaultNodeSelector" is the selector of the
	// namespaces that have none of their own.
	Selectors map[string]string
}

const clusterDefaultSelector = "clusterDefaultNodeSelector"

// NewPodNodeSelector reads the plugin's configuration.
func NewPodNodeSelector(objects admission.Objects, config []byte) (*PodNodeSelector, error) {
	var c struct {
		Config map[string]string `json:"podNodeSelectorPluginConfig"`
	}
	if err := yaml.UnmarshalStrict(config, &c); err != nil {
		return nil, err
	}
	for name, text := range c.Config {
		if _, err := labels.ConvertSelectorToLabelsMap(text); err != nil {
			return nil, fmt.Errorf("podNodeSelectorPluginConfig[%s]: %w", name, err)
		}
	}
	return &PodNodeSelector{Objects: objects, Selectors: c.Config}, nil
}

// Name implements admission.Plugin.
func (*PodNodeSelector) Name() string { return "PodNodeSelector" }

// Handles implements admission.Plugin.
func (*PodNodeSelector) Handles(a *admission.Attributes) bool { return podBegins(a) }

// Admit implements admission.Mutator.
func (p *PodNodeSelector) Admit(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	own, err := p.selector(ctx, a.Namespace)
	if err != nil {
		return err
	}
	if labels.Conflicts(own, pod.Spec.NodeSelector) {
		return a.Forbidden(errors.New("pod node label selector conflicts with its namespace node label selector"))
	}
	if len(own) > 0 || len(pod.Spec.NodeSelector) > 0 {
		pod.Spec.NodeSelector = labels.Merge(own, pod.Spec.NodeSelector)
	}
	return p.Validate(ctx, a)
}

// Validate implements admission.Validator.
func (p *PodNodeSelector) Validate(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	own, err := p.selector(ctx, a.Namespace)
	if err != nil {
		return err
	}
	if labels.Conflicts(own, pod.Spec.NodeSelector) {
		return a.Forbidden(errors.New("pod node label selector conflicts with its namespace node label selector"))
	}
	text, listed := p.Selectors[a.Namespace]
	if !listed {
		return nil
	}
	allowed, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil {
		return err
	}
	if len(allowed) == 0 {
		return nil
	}
	for key, value := range pod.Spec.NodeSelector {
		if v, ok := allowed[key]; !ok || v != value {
			return a.Forbidden(errors.New("pod node label selector labels conflict with its namespace whitelist"))
		}
	}
	return nil
}

// selector is the namespace's own, or else the cluster's.
func (p *PodNodeSelector) selector(ctx context.Context, namespace string) (labels.Set, error) {
	obj, err := p.Objects.Get(ctx, "", "namespaces", "", namespace)
	if err != nil {
		return nil, err
	}
	if text, ok := obj.GetAnnotations()[nodeSelectorAnnotation]; ok {
		own, err := labels.ConvertSelectorToLabelsMap(text)
		return maps.Clone(own), err
	}
	return labels.ConvertSelectorToLabelsMap(p.Selectors[clusterDefaultSelector])
}
