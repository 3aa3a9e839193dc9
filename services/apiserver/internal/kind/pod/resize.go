package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/podspec"
)

// prepareResize keeps all of the object but the resources: what else a client changes is forgotten, but for the number and names of
// containers, which are refused.
func prepareResize(p, old *corev1.Pod) {
	if len(p.Spec.Containers) != len(old.Spec.Containers) || len(p.Spec.InitContainers) != len(old.Spec.InitContainers) {
		bumpGeneration(p, old)
		return
	}
	metav1.ResetObjectMetaForStatus(p, old)
	old.Status.DeepCopyInto(&p.Status)
	spec := old.Spec.DeepCopy()
	spec.Resources = p.Spec.Resources
	spec.Containers = resizable(p.Spec.Containers, old.Spec.Containers)
	spec.InitContainers = resizable(p.Spec.InitContainers, old.Spec.InitContainers)
	p.Spec = *spec
	bumpGeneration(p, old)
}

// resizable returns the containers of old with the resources of now; now itself where there are others. Resources that are the same stay as they
// are written: whether a node can resize init containers is asked of whatever differs in more than its meaning.
func resizable(now, old []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(now))
	for i := range now {
		if now[i].Name != old[i].Name {
			return now
		}
		old[i].DeepCopyInto(&out[i])
		if out[i].ResizePolicy = now[i].ResizePolicy; !equality.Semantic.DeepEqual(now[i].Resources, old[i].Resources) {
			out[i].Resources = now[i].Resources
		}
	}
	return out
}

func validateResize(p, old *corev1.Pod) field.ErrorList {
	path, whole := field.NewPath("spec"), &field.Path{}
	if _, static := old.Annotations[mirrorAnnotation]; static {
		return field.ErrorList{field.Forbidden(whole, "static pods cannot be resized")}
	}
	if onWindows(old) {
		return field.ErrorList{field.Forbidden(whole, "windows pods cannot be resized")}
	}
	errs := podspec.Tolerated(validate(p), &old.Spec, &old.ObjectMeta)
	if was := podspec.QOSClassOf(&old.Spec); was != podspec.QOSClassOf(&p.Spec) {
		errs = append(errs, field.Invalid(path, p.Status.QOSClass, "Pod QOS Class may not change as a result of resizing"))
	}
	rest := p.Spec.DeepCopy()
	if sized(old.Spec.Resources) || sized(p.Spec.Resources) {
		errs = append(errs, resizedPod(rest, old.Spec.Resources, path)...)
	}
	changed := sameContainers(p.Spec.Containers, old.Spec.Containers, path, "containers")
	changed = append(changed, sameContainers(p.Spec.InitContainers, old.Spec.InitContainers, path, "initContainers")...)
	if len(changed) > 0 {
		return append(errs, changed...)
	}
	for i := range p.Spec.InitContainers {
		errs = append(errs, removed(&p.Spec.InitContainers[i].Resources, &old.Spec.InitContainers[i].Resources, path.Child("initContainers").Index(i).Child("resources"), "resource")...)
	}
	for i := range p.Spec.Containers {
		errs = append(errs, removed(&p.Spec.Containers[i].Resources, &old.Spec.Containers[i].Resources, path.Child("containers").Index(i).Child("resources"), "resource")...)
	}
	for i := range rest.Containers {
		c, was := &rest.Containers[i], &old.Spec.Containers[i]
		c.Resources = restored(&c.Resources, &was.Resources)
		if !equality.Semantic.DeepEqual(c, was) {
			errs = append(errs, field.Forbidden(path, "only cpu and memory resources are mutable"))
		}
	}
	for i := range rest.InitContainers {
		c, was := &rest.InitContainers[i], &old.Spec.InitContainers[i]
		changed, at := !equality.Semantic.DeepEqual(c, was), path.Child("initContainers").Index(i)
		c.Resources = restored(&c.Resources, &was.Resources)
		if !equality.Semantic.DeepEqual(c, was) {
			errs = append(errs, field.Forbidden(at, "only cpu and memory resources for init or sidecar containers are mutable"))
		}
		for _, policy := range c.ResizePolicy {
			if changed && !podspec.Sidecar(c) && policy.RestartPolicy == corev1.RestartContainer {
				errs = append(errs, field.Forbidden(at, "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"))
			}
		}
	}
	if len(errs) == 0 && !equality.Semantic.DeepEqual(rest, &old.Spec) {
		errs = append(errs, field.Forbidden(path, "only cpu and memory resources are mutable"))
	}
	return errs
}

func onWindows(p *corev1.Pod) bool { return p.Spec.OS != nil && p.Spec.OS.Name == corev1.Windows }

func sized(r *corev1.ResourceRequirements) bool { return r != nil && len(r.Requests)+len(r.Limits) > 0 }

// resizedPod sets the CPU and memory of the pod as a whole back to the old ones, and refuses other changes of its resources.
func resizedPod(spec *corev1.PodSpec, old *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	at := path.Child("resources")
	if old != nil && spec.Resources == nil {
		return field.ErrorList{field.Forbidden(at, "pod-level resources cannot be removed")}
	}
	var errs field.ErrorList
	was := &corev1.ResourceRequirements{}
	if old != nil {
		errs, was = removed(spec.Resources, old, at, "pod-level resource"), old
	}
	claims := spec.Resources.Claims
	rest := restored(spec.Resources, was)
	rest.Claims = claims
	spec.Resources = &rest
	if old == nil && len(rest.Requests)+len(rest.Limits)+len(claims) == 0 {
		spec.Resources = nil
	}
	if !equality.Semantic.DeepEqual(spec.Resources, old) {
		errs = append(errs, field.Forbidden(path, "only cpu and memory resources are mutable at pod-level"))
	}
	return errs
}

// sameContainers refuses that there are others in a list of path than there were.
func sameContainers(now, was []corev1.Container, path *field.Path, list string) field.ErrorList {
	if len(now) != len(was) {
		return field.ErrorList{field.Forbidden(path.Child(list), list+" may not be added or removed on resize")}
	}
	var errs field.ErrorList
	for i := range now {
		if now[i].Name != was[i].Name {
			errs = append(errs, field.Forbidden(path.Child(list).Index(i).Child("name"), list+" may not be renamed or reordered on resize"))
		}
	}
	return errs
}

// removed refuses that something that was asked for is no more.
func removed(now, was *corev1.ResourceRequirements, path *field.Path, what string) field.ErrorList {
	var errs field.ErrorList
	for _, part := range []struct {
		name     string
		now, was corev1.ResourceList
	}{{"requests", now.Requests, was.Requests}, {"limits", now.Limits, was.Limits}} {
		for name := range part.was {
			if _, ok := part.now[name]; !ok {
				errs = append(errs, field.Forbidden(path.Child(part.name), what+" "+part.name+" cannot be removed"))
				break
			}
		}
	}
	return errs
}

// restored returns the requests and limits of now with the CPU and memory of was. Claims are no part of a resize: they are left out, so that
// containers that have some cannot be resized.
func restored(now, was *corev1.ResourceRequirements) corev1.ResourceRequirements {
	one := func(now, was corev1.ResourceList) corev1.ResourceList {
		out := now.DeepCopy()
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			delete(out, name)
			if q, ok := was[name]; ok {
				if out == nil {
					out = corev1.ResourceList{}
				}
				out[name] = q
			}
		}
		return out
	}
	return corev1.ResourceRequirements{Requests: one(now.Requests, was.Requests), Limits: one(now.Limits, was.Limits)}
}
