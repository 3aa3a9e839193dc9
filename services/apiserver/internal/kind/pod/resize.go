package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// prepareResize keeps all of the object but the resources: what else a client changes is forgotten, but for the number and names of
// containers, which are refused.
func prepareResize(p, old *corev1.Pod) {
	metav1.ResetObjectMetaForStatus(p, old)
	old.Status.DeepCopyInto(&p.Status)
	spec := old.Spec.DeepCopy()
	spec.Resources = p.Spec.Resources
	spec.Containers = resizable(p.Spec.Containers, old.Spec.Containers)
	spec.InitContainers = resizable(p.Spec.InitContainers, old.Spec.InitContainers)
	p.Spec = *spec
	bumpGeneration(p, old)
}

// resizable returns the containers of old with the names and resources of now.
func resizable(now, old []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(now))
	for i := range now {
		if i >= len(old) {
			out[i] = now[i]
			continue
		}
		old[i].DeepCopyInto(&out[i])
		out[i].Name, out[i].Resources, out[i].ResizePolicy = now[i].Name, now[i].Resources, now[i].ResizePolicy
	}
	return out
}

func validateResize(p, old *corev1.Pod) field.ErrorList {
	path, whole := field.NewPath("spec"), &field.Path{}
	if _, static := old.Annotations[mirrorAnnotation]; static {
		return field.ErrorList{field.Forbidden(whole, "static pods cannot be resized")}
	}
	if os := old.Spec.OS; os != nil && os.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(whole, "windows pods cannot be resized")}
	}
	errs := validate(p)
	if was := qosClass(&old.Spec); was != qosClass(&p.Spec) {
		errs = append(errs, field.Invalid(path, was, "Pod QOS Class may not change as a result of resizing"))
	}
	rest := p.Spec.DeepCopy()
	changed := sameContainers(p.Spec.Containers, old.Spec.Containers, path.Child("containers"))
	changed = append(changed, sameContainers(p.Spec.InitContainers, old.Spec.InitContainers, path.Child("initContainers"))...)
	if len(changed) > 0 {
		return append(errs, changed...)
	}
	for i := range rest.Containers {
		errs = append(errs, resized(&rest.Containers[i].Resources, &old.Spec.Containers[i].Resources, path.Child("containers").Index(i).Child("resources"))...)
	}
	for i := range rest.InitContainers {
		errs = append(errs, resized(&rest.InitContainers[i].Resources, &old.Spec.InitContainers[i].Resources, path.Child("initContainers").Index(i).Child("resources"))...)
	}
	switch at := path.Child("resources"); {
	case rest.Resources == nil && old.Spec.Resources != nil:
		errs = append(errs, field.Forbidden(at, "pod-level resources cannot be removed"))
		rest.Resources = old.Spec.Resources
	case old.Spec.Resources == nil && rest.Resources != nil:
		errs = append(errs, resized(rest.Resources, &corev1.ResourceRequirements{}, at)...)
		if equality.Semantic.DeepEqual(*rest.Resources, corev1.ResourceRequirements{}) {
			rest.Resources = nil
		}
	case rest.Resources != nil:
		errs = append(errs, resized(rest.Resources, old.Spec.Resources, at)...)
	}
	if !equality.Semantic.DeepEqual(rest, &old.Spec) {
		errs = append(errs, field.Forbidden(path, "only cpu and memory resources are mutable"))
	}
	return errs
}

// sameContainers refuses that there are others than there were.
func sameContainers(now, was []corev1.Container, path *field.Path) field.ErrorList {
	if len(now) != len(was) {
		return field.ErrorList{field.Forbidden(path, "containers may not be added or removed on resize")}
	}
	var errs field.ErrorList
	for i := range now {
		if now[i].Name != was[i].Name {
			errs = append(errs, field.Forbidden(path.Index(i).Child("name"), "containers may not be renamed or reordered on resize"))
		}
	}
	return errs
}

// resized sets the CPU and memory of r back to those of old, and refuses that one of them is taken away.
func resized(r, old *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if removed(r.Requests, old.Requests) {
		errs = append(errs, field.Forbidden(path.Child("requests"), "resource requests cannot be removed"))
	}
	if removed(r.Limits, old.Limits) {
		errs = append(errs, field.Forbidden(path.Child("limits"), "resource limits cannot be removed"))
	}
	for _, name := range counted {
		r.Limits = restored(r.Limits, old.Limits, name)
		r.Requests = restored(r.Requests, old.Requests, name)
	}
	return errs
}

func removed(now, was corev1.ResourceList) bool {
	for _, name := range counted {
		_, had := was[name]
		if _, has := now[name]; had && !has {
			return true
		}
	}
	return false
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
