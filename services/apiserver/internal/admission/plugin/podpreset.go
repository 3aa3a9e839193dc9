package plugin

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/registry"
)

// The annotations of PodPreset.
const (
	presetExclude = "podpreset.admission.kubernetes.io/exclude"
	presetApplied = "podpreset.admission.kubernetes.io/podpreset-"
)

// PodPreset gives pods the environment, volumes and mounts of the presets (settings.k8s.io/v1alpha1) that select them. Kubernetes
// removed it in 1.20.
type PodPreset struct{ Objects admission.Objects }

// presetSpec is the spec of a preset.
type presetSpec struct {
	Selector     metav1.LabelSelector   `json:"selector"`
	Env          []corev1.EnvVar        `json:"env"`
	EnvFrom      []corev1.EnvFromSource `json:"envFrom"`
	Volumes      []corev1.Volume        `json:"volumes"`
	VolumeMounts []corev1.VolumeMount   `json:"volumeMounts"`
}

// preset is one that selects a pod.
type preset struct {
	name, revision string
	presetSpec
}

// Name implements admission.Plugin.
func (*PodPreset) Name() string { return "PodPreset" }

// Handles implements admission.Plugin.
func (*PodPreset) Handles(a *admission.Attributes) bool { return podCreate(a) }

// Admit implements admission.Mutator. Presets that contradict each other or the pod leave it as it is, with a warning.
func (p *PodPreset) Admit(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || pod.Annotations[presetExclude] == "true" {
		return nil
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return nil
	}
	presets := p.selecting(ctx, a, pod)
	if len(presets) == 0 {
		return nil
	}
	changed := pod.DeepCopy()
	for _, one := range presets {
		if err := one.apply(changed); err != nil {
			a.Warn(fmt.Sprintf("conflict occurred while applying podpresets: %s on pod: %v", one.name, err))
			return nil
		}
	}
	*pod = *changed
	return nil
}

// selecting returns the namespace's presets that select the pod, by name. One that cannot be read is left out, with a warning.
func (p *PodPreset) selecting(ctx context.Context, a *admission.Attributes, pod *corev1.Pod) []preset {
	var out []preset
	for _, obj := range p.Objects.List(ctx, "settings.k8s.io", "podpresets", a.Namespace) {
		spec, err := readPreset(obj)
		var selector labels.Selector
		if err == nil {
			selector, err = metav1.LabelSelectorAsSelector(&spec.Selector)
		}
		if err != nil {
			a.Warn(fmt.Sprintf("podpreset %s is left out: %v", obj.GetName(), err))
			continue
		}
		if selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, preset{obj.GetName(), obj.GetResourceVersion(), spec})
		}
	}
	return out
}

func readPreset(obj registry.Object) (presetSpec, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return presetSpec{}, err
	}
	var read struct {
		Spec presetSpec `json:"spec"`
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, &read)
	return read.Spec, err
}

func (p preset) apply(pod *corev1.Pod) error {
	var err error
	if pod.Spec.Volumes, err = merge(pod.Spec.Volumes, p.Volumes, "volumes", func(v corev1.Volume) string { return v.Name }); err != nil {
		return err
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if err := p.applyTo(&containers[i]); err != nil {
				return err
			}
		}
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[presetApplied+p.name] = p.revision
	return nil
}

func (p preset) applyTo(c *corev1.Container) error {
	var err error
	if c.Env, err = merge(c.Env, p.Env, "env", func(e corev1.EnvVar) string { return e.Name }); err != nil {
		return err
	}
	for _, from := range p.EnvFrom {
		if !slices.ContainsFunc(c.EnvFrom, func(e corev1.EnvFromSource) bool { return equality.Semantic.DeepEqual(e, from) }) {
			c.EnvFrom = append(c.EnvFrom, from)
		}
	}
	if _, err := merge(c.VolumeMounts, p.VolumeMounts, "volume mounts", func(m corev1.VolumeMount) string { return m.MountPath }); err != nil {
		return err
	}
	c.VolumeMounts, err = merge(c.VolumeMounts, p.VolumeMounts, "volume mounts", func(m corev1.VolumeMount) string { return m.Name })
	return err
}

// merge adds what is not there under its key, and fails where something else is.
func merge[T any](have, add []T, what string, key func(T) string) ([]T, error) {
	for _, item := range add {
		i := slices.IndexFunc(have, func(h T) bool { return key(h) == key(item) })
		if i < 0 {
			have = append(have, item)
			continue
		}
		if !equality.Semantic.DeepEqual(have[i], item) {
			return nil, fmt.Errorf("merging %s for %s has a conflict", what, key(item))
		}
	}
	return have, nil
}
