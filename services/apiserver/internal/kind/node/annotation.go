package node

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// taintsAnnotation is where taints were before they had a field.
const taintsAnnotation = "scheduler.alpha.kubernetes.io/taints"

// validateAnnotations checks what older versions kept in annotations, which nothing acts on any more.
func validateAnnotations(annotations map[string]string) field.ErrorList {
	path := field.NewPath("metadata", "annotations")
	var errs field.ErrorList
	if text := annotations[taintsAnnotation]; text != "" {
		var taints []corev1.Taint
		if err := json.Unmarshal([]byte(text), &taints); err != nil {
			errs = append(errs, field.Invalid(path, taintsAnnotation, err.Error()))
		} else {
			errs = append(errs, validateTaints(taints, path.Child(taintsAnnotation))...)
		}
	}
	const key = corev1.PreferAvoidPodsAnnotationKey
	text := annotations[key]
	if text == "" {
		return errs
	}
	var avoid corev1.AvoidPods
	if err := json.Unmarshal([]byte(text), &avoid); err != nil {
		return append(errs, field.Invalid(path.Child("AvoidPods"), key, err.Error()))
	}
	for i, entry := range avoid.PreferAvoidPods {
		at := path.Child(key).Index(i).Child("PodSignature")
		switch owner := entry.PodSignature.PodController; {
		case owner == nil:
			errs = append(errs, field.Required(at, ""))
		case owner.Controller == nil || !*owner.Controller: // without one, Kubernetes breaks the connection
			errs = append(errs, field.Invalid(at.Child("PodController", "Controller"), false, "must point to a controller"))
		}
	}
	return errs
}
