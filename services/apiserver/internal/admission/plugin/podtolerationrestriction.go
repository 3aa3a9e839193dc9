package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/admission"
)

// The annotations of a namespace.
const (
	defaultTolerationsAnnotation = "scheduler.alpha.kubernetes.io/defaultTolerations"
	tolerationsAllowedAnnotation = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

// PodTolerationRestriction gives pods their namespace's tolerations and refuses those that the namespace does not allow.
type PodTolerationRestriction struct {
	Objects admission.Objects
	// Default and Allowed are those of namespaces that say nothing.
	Default, Allowed []corev1.Toleration
}

// NewPodTolerationRestriction reads the plugin's configuration; nil is an empty one.
func NewPodTolerationRestriction(objects admission.Objects, config []byte) (*PodTolerationRestriction, error) {
	var c struct {
		APIVersion string              `json:"apiVersion"`
		Kind       string              `json:"kind"`
		Default    []corev1.Toleration `json:"default"`
		Whitelist  []corev1.Toleration `json:"whitelist"`
	}
	if config != nil {
		if err := decodeConfig(config, &c, "Configuration", "podtolerationrestriction.admission.k8s.io/v1alpha1", "podtolerationrestriction.admission.k8s.io/v1beta1"); err != nil {
			return nil, err
		}
	}
	return &PodTolerationRestriction{Objects: objects, Default: c.Default, Allowed: c.Whitelist}, nil
}

// Name implements admission.Plugin.
func (*PodTolerationRestriction) Name() string { return "PodTolerationRestriction" }

// Handles implements admission.Plugin.
func (*PodTolerationRestriction) Handles(a *admission.Attributes) bool {
	return a.Is("", "pods") && a.Subresource == "" && (a.Operation == admission.Create || a.Operation == admission.Update)
}

// Admit implements admission.Mutator.
func (p *PodTolerationRestriction) Admit(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	var added []corev1.Toleration
	if a.Operation == admission.Create {
		own, said, err := p.annotated(ctx, a.Namespace, defaultTolerationsAnnotation)
		if err != nil {
			return err
		}
		if added = own; !said {
			added = p.Default
		}
	}
	if podspec.QOSClass(pod) != corev1.PodQOSBestEffort {
		added = append(slices.Clone(added), corev1.Toleration{
			Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
		})
	}
	if len(added) > 0 {
		pod.Spec.Tolerations = mergeTolerations(pod.Spec.Tolerations, added)
	}
	return p.Validate(ctx, a)
}

// Validate implements admission.Validator.
func (p *PodTolerationRestriction) Validate(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	allowed, said, err := p.annotated(ctx, a.Namespace, tolerationsAllowedAnnotation)
	if err != nil {
		return err
	}
	if !said {
		allowed = p.Allowed
	}
	if len(allowed) == 0 {
		return nil
	}
	for _, t := range pod.Spec.Tolerations {
		if !slices.ContainsFunc(allowed, func(by corev1.Toleration) bool { return covers(by, t) }) {
			return a.Forbidden(errors.New("pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist"))
		}
	}
	return nil
}

func (p *PodTolerationRestriction) annotated(ctx context.Context, namespace, name string) ([]corev1.Toleration, bool, error) {
	obj, err := p.Objects.Get(ctx, "", "namespaces", "", namespace)
	if err != nil {
		return nil, false, err
	}
	text, ok := obj.GetAnnotations()[name]
	if !ok {
		return nil, false, nil
	}
	var out []corev1.Toleration
	if text == "" {
		return nil, true, nil
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, false, fmt.Errorf("annotation %s of namespace %s: %w", name, namespace, err)
	}
	return out, true, nil
}
