package pod

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/unversioned"
)

// prepareEphemeral keeps all but the ephemeral containers.
func prepareEphemeral(p, old *corev1.Pod) {
	added := p.Spec.EphemeralContainers
	metav1.ResetObjectMetaForStatus(p, old)
	old.Spec.DeepCopyInto(&p.Spec)
	old.Status.DeepCopyInto(&p.Status)
	p.Spec.EphemeralContainers = added
	bumpGeneration(p, old)
}

// mirrorAnnotation is on pods that a node's agent has from a file.
const mirrorAnnotation = corev1.MirrorPodAnnotationKey

func validateEphemeralUpdate(p, old *corev1.Pod) field.ErrorList {
	path := field.NewPath("spec", "ephemeralContainers")
	if _, static := old.Annotations[mirrorAnnotation]; static {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	errs := validate(p)
	now := map[string]*corev1.EphemeralContainer{}
	for i := range p.Spec.EphemeralContainers {
		now[p.Spec.EphemeralContainers[i].Name] = &p.Spec.EphemeralContainers[i]
	}
	for i := range old.Spec.EphemeralContainers {
		was := &old.Spec.EphemeralContainers[i]
		switch is := now[was.Name]; {
		case is == nil:
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", was.Name)))
		case !equality.Semantic.DeepEqual(is, was):
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be changed\n%s", was.Name,
				diff.Diff(unversioned.Form(was), unversioned.Form(is)))))
		}
	}
	return errs
}
