package plugin

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"howdah.dev/services/apiserver/internal/admission"
)

// limitRangerAnnotation tells which requests and limits the plugin has set.
const limitRangerAnnotation = "kubernetes.io/limit-ranger"

// LimitRanger keeps pods and claims within the LimitRanges of their namespace, and gives containers their defaults.
type LimitRanger struct{ Objects admission.Objects }

// Name implements admission.Plugin.
func (*LimitRanger) Name() string { return "LimitRanger" }

// Handles implements admission.Plugin. Containers are added and changed by creation and resize only.
func (*LimitRanger) Handles(a *admission.Attributes) bool {
	switch {
	case a.Is("", "pods"):
		return podBegins(a) || a.Operation == admission.Update && a.Subresource == "resize"
	case a.Is("", "persistentvolumeclaims"):
		return a.Subresource == "" && (a.Operation == admission.Create || a.Operation == admission.Update)
	}
	return false
}

func (p *LimitRanger) ranges(ctx context.Context, namespace string) []corev1.LimitRangeItem {
	var items []corev1.LimitRangeItem
	for _, obj := range p.Objects.List(ctx, "", "limitranges", namespace) {
		if r, ok := obj.(*corev1.LimitRange); ok {
			items = append(items, r.Spec.Limits...)
		}
	}
	return items
}

// Admit implements admission.Mutator.
func (p *LimitRanger) Admit(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	var notes []string
	for _, obj := range p.Objects.List(ctx, "", "limitranges", a.Namespace) {
		if r, ok := obj.(*corev1.LimitRange); ok {
			notes = append(notes, setDefaults(pod, r)...)
		}
	}
	if len(notes) > 0 {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[limitRangerAnnotation] = "LimitRanger plugin set: " + strings.Join(notes, "; ")
	}
	return nil
}

func setDefaults(pod *corev1.Pod, r *corev1.LimitRange) []string {
	limits, requests := corev1.ResourceList{}, corev1.ResourceList{}
	for _, item := range r.Spec.Limits {
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		for name, q := range item.Default {
			limits[name] = q.DeepCopy()
		}
		for name, q := range item.DefaultRequest {
			requests[name] = q.DeepCopy()
		}
	}
	var notes []string
	for i := range pod.Spec.Containers {
		notes = append(notes, setDefault(&pod.Spec.Containers[i], "container ", limits, requests)...)
	}
	for i := range pod.Spec.InitContainers {
		notes = append(notes, setDefault(&pod.Spec.InitContainers[i], "init container ", limits, requests)...)
	}
	return notes
}

func setDefault(c *corev1.Container, what string, limits, requests corev1.ResourceList) []string {
	setLimits, setRequests := fillIn(&c.Resources.Limits, limits), fillIn(&c.Resources.Requests, requests)
	var notes []string
	if len(setRequests) > 0 {
		notes = append(notes, strings.Join(setRequests, ", ")+" request for "+what+c.Name)
	}
	if len(setLimits) > 0 {
		notes = append(notes, strings.Join(setLimits, ", ")+" limit for "+what+c.Name)
	}
	return notes
}

// fillIn sets what is not set and returns its names, sorted.
func fillIn(list *corev1.ResourceList, defaults corev1.ResourceList) []string {
	var set []string
	for name, q := range defaults {
		if _, ok := (*list)[name]; ok {
			continue
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = q.DeepCopy()
		set = append(set, string(name))
	}
	slices.Sort(set)
	return set
}

// Validate implements admission.Validator.
func (p *LimitRanger) Validate(ctx context.Context, a *admission.Attributes) error {
	items := p.ranges(ctx, a.Namespace)
	if len(items) == 0 {
		return nil
	}
	var errs []error
	for i := range items {
		switch obj := a.Object.(type) {
		case *corev1.Pod:
			errs = append(errs, podWithin(obj, &items[i])...)
		case *corev1.PersistentVolumeClaim:
			errs = append(errs, claimWithin(obj, &items[i])...)
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return a.Forbidden(err)
	}
	return nil
}
