package plugin

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/admission"
)

// AlwaysPullImages makes every container pull its image, so that a pod gets no image that only others may pull.
type AlwaysPullImages struct{}

// Name implements admission.Plugin.
func (AlwaysPullImages) Name() string { return "AlwaysPullImages" }

// Handles implements admission.Plugin.
func (AlwaysPullImages) Handles(a *admission.Attributes) bool {
	return a.Is("", "pods") && (a.Operation == admission.Create && a.Subresource == "" ||
		a.Operation == admission.Update && (a.Subresource == "" || a.Subresource == "ephemeralcontainers"))
}

// Admit implements admission.Mutator.
func (AlwaysPullImages) Admit(_ context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || !newImages(a, pod) {
		return nil
	}
	eachContainer(&pod.Spec, func(c *corev1.Container, _ *field.Path) { c.ImagePullPolicy = corev1.PullAlways })
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			image.PullPolicy = corev1.PullAlways
		}
	}
	return nil
}

// Validate implements admission.Validator.
func (AlwaysPullImages) Validate(_ context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || !newImages(a, pod) {
		return nil
	}
	var errs []error
	wrong := func(path *field.Path, policy corev1.PullPolicy) {
		errs = append(errs, a.Forbidden(field.NotSupported(path, policy, []corev1.PullPolicy{corev1.PullAlways})))
	}
	eachContainer(&pod.Spec, func(c *corev1.Container, path *field.Path) {
		if c.ImagePullPolicy != corev1.PullAlways {
			wrong(path.Child("imagePullPolicy"), c.ImagePullPolicy)
		}
	})
	for i, v := range pod.Spec.Volumes {
		if v.Image != nil && v.Image.PullPolicy != corev1.PullAlways {
			wrong(field.NewPath("spec", "volumes").Index(i).Child("image", "pullPolicy"), v.Image.PullPolicy)
		}
	}
	if len(errs) > 0 {
		return a.Forbidden(errors.Join(errs...))
	}
	return nil
}

// newImages reports whether the write brings images that the pod does not have yet.
func newImages(a *admission.Attributes, pod *corev1.Pod) bool {
	old, ok := a.Old.(*corev1.Pod)
	if !ok || a.Operation != admission.Update {
		return true
	}
	known := map[string]bool{}
	eachContainer(&old.Spec, func(c *corev1.Container, _ *field.Path) { known[c.Image] = true })
	for _, v := range old.Spec.Volumes {
		if v.Image != nil {
			known[v.Image.Reference] = true
		}
	}
	fresh := false
	eachContainer(&pod.Spec, func(c *corev1.Container, _ *field.Path) { fresh = fresh || !known[c.Image] })
	for _, v := range pod.Spec.Volumes {
		fresh = fresh || v.Image != nil && !known[v.Image.Reference]
	}
	return fresh
}
