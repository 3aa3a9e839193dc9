package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/podspec"
)

// prepareResize keeps all of the object but the spec, whose changes are
// validated: a client that changes something else learns of it.
func prepareResize(p, old *corev1.Pod) {
	metav1.ResetObjectMetaForStatus(p, old)
	old.Status.DeepCopyInto(&p.Status)
	bumpGeneration(p, old)
}

func validateResize(p, old *corev1.Pod) field.ErrorList {
	path := field.NewPath("spec")
	if _, static := old.Annotations[mirrorAnnotation]; static {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods cannot be resized")}
	}
	if old.Status.Phase == corev1.PodSucceeded || old.Status.Phase == corev1.PodFailed {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "pod in terminal phase cannot be resized")}
	}
	if len(p.Spec.Containers) != len(old.Spec.Containers) || len(p.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return field.ErrorList{field.Forbidden(path, "only cpu and memory resources are mutable")}
	}
	errs := validate(p)
	if was, is := qosClass(&old.Spec), qosClass(&p.Spec); was != is {
		errs = append(errs, field.Invalid(path, is, "Pod QOS Class may not change as a result of resizing"))
	}
	rest := p.Spec.DeepCopy()
	for i := range rest.Containers {
		errs = append(errs, resized(&rest.Containers[i], &old.Spec.Containers[i], path.Child("containers").Index(i).Child("resources"))...)
	}
	for i := range rest.InitContainers {
		if podspec.Sidecar(&old.Spec.InitContainers[i]) {
			errs = append(errs, resized(&rest.InitContainers[i], &old.Spec.InitContainers[i], path.Child("initContainers").Index(i).Child("resources"))...)
		}
	}
	if !equality.Semantic.DeepEqual(rest, &old.Spec) {
		errs = append(errs, field.Forbidden(path, "only cpu and memory resources are mutable"))
	}
	return errs
}

// resized sets the CPU and memory of c back to those of old, and refuses that
// one of them is taken away.
func resized(c, old *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range counted {
		errs = append(errs, kept(c.Resources.Limits, old.Resources.Limits, name, path.Child("limits"), "resource limits cannot be removed")...)
		errs = append(errs, kept(c.Resources.Requests, old.Resources.Requests, name, path.Child("requests"), "resource requests cannot be removed")...)
		c.Resources.Limits = restored(c.Resources.Limits, old.Resources.Limits, name)
		c.Resources.Requests = restored(c.Resources.Requests, old.Resources.Requests, name)
	}
	return errs
}

func kept(now, was corev1.ResourceList, name corev1.ResourceName, path *field.Path, text string) field.ErrorList {
	if _, had := was[name]; !had {
		return nil
	}
	if _, has := now[name]; has {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, text)}
}

func restored(now, was corev1.ResourceList, name corev1.ResourceName) corev1.ResourceList {
	q, ok := was[name]
	switch {
	case ok && now == nil:
		return corev1.ResourceList{name: q}
	case ok:
		now[name] = q
	default:
		delete(now, name)
	}
	if len(now) == 0 && was == nil {
		return nil
	}
	return now
}
