package claim

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

// resizes are the states of a resource whose size is being changed.
var resizes = []corev1.ClaimResourceStatus{
	corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
	corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible, corev1.PersistentVolumeClaimNodeResizePending,
}

func validateStatus(c, _ *corev1.PersistentVolumeClaim) field.ErrorList {
	path := field.NewPath("status")
	var errs field.ErrorList
	for name, q := range c.Status.Capacity {
		if q.Value() < 0 {
			errs = append(errs, field.Invalid(path.Child("capacity").Key(string(name)), q.Value(), quantity))
		}
	}
	states := path.Child("allocatedResourceStatuses")
	for name, state := range c.Status.AllocatedResourceStatuses {
		errs = append(errs, resourceName(name, states)...)
		if len(check.Listed(state, states, resizes...)) > 0 {
			errs = append(errs, field.NotSupported(states, name, resizes)) // Kubernetes shows the name
		}
	}
	sizes := path.Child("allocatedResources")
	for name, q := range c.Status.AllocatedResources {
		if wrong := resourceName(name, sizes); len(wrong) > 0 {
			errs = append(errs, wrong...)
		} else if q.Value() < 0 {
			errs = append(errs, field.Invalid(sizes.Key(string(name)), q.Value(), quantity))
		}
	}
	return errs
}

const quantity = "must be a valid resource quantity"

// resourceName wants the storage, or what somebody's domain precedes.
func resourceName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	if wrong := check.QualifiedName(string(name), path); len(wrong) > 0 {
		return wrong
	}
	if name != corev1.ResourceStorage && !custom(string(name)) {
		return field.ErrorList{field.NotSupported(path, name, []corev1.ResourceName{corev1.ResourceStorage})}
	}
	return nil
}

// custom reports whether a name belongs to a domain that is not Kubernetes' own.
func custom(name string) bool {
	domain, _, found := strings.Cut(name, "/")
	return found && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}
