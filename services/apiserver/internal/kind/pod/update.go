package pod

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/unversioned"
)

func validate(p *corev1.Pod) field.ErrorList {
	return podspec.ValidatePod(&p.Spec, &p.ObjectMeta, field.NewPath("spec"))
}

// fixed is what a client is told who changes what is not in the list.
const fixed = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
	"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

func validateUpdate(p, old *corev1.Pod) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateAnnotationsUpdate(p, old)
	if len(p.Spec.Containers) != len(old.Spec.Containers) {
		return append(errs, field.Forbidden(path.Child("containers"), "pod updates may not add or remove containers"))
	}
	errs = append(errs, validateImages(p.Spec.Containers, path.Child("containers"))...)
	if len(p.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return append(errs, field.Forbidden(path.Child("initContainers"), "pod updates may not add or remove containers"))
	}
	errs = append(errs, validateImages(p.Spec.InitContainers, path.Child("initContainers"))...)
	late := validateDeadline(p.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds, path.Child("activeDeadlineSeconds"))
	errs = append(errs, late...)
	if len(late) > 0 && p.Spec.ActiveDeadlineSeconds != nil {
		return errs
	}
	errs = append(errs, validateTolerations(p.Spec.Tolerations, old.Spec.Tolerations, path.Child("tolerations"))...)
	errs = append(errs, validateGates(p.Spec.SchedulingGates, old.Spec.SchedulingGates, path.Child("schedulingGates"))...)
	// What may change is set back, and then nothing may differ.
	rest := p.Spec.DeepCopy()
	for i := range rest.Containers {
		rest.Containers[i].Image = old.Spec.Containers[i].Image
	}
	for i := range rest.InitContainers {
		rest.InitContainers[i].Image = old.Spec.InitContainers[i].Image
	}
	rest.ActiveDeadlineSeconds, rest.Tolerations, rest.SchedulingGates =
		old.Spec.ActiveDeadlineSeconds, old.Spec.Tolerations, old.Spec.SchedulingGates
	if grace, was := rest.TerminationGracePeriodSeconds, old.Spec.TerminationGracePeriodSeconds; grace != nil && was != nil && *was < 0 && *grace == 1 {
		rest.TerminationGracePeriodSeconds = was
	}
	if len(old.Spec.SchedulingGates) > 0 {
		errs = append(errs, narrow(rest, &old.Spec, path)...)
	}
	if !equality.Semantic.DeepEqual(rest, &old.Spec) {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("%s\n%v", fixed, diff.Diff(unversioned.Form(&old.Spec), unversioned.Form(rest)))))
	}
	return errs
}

// validateAnnotationsUpdate checks changed annotations, and all of them once more, as in Kubernetes.
func validateAnnotationsUpdate(p, old *corev1.Pod) field.ErrorList {
	path := field.NewPath("metadata", "annotations")
	return append(validateFixedAnnotations(p.Annotations, old.Annotations, path), podspec.ValidateAnnotations(&p.ObjectMeta, &p.Spec, path)...)
}

// validateFixedAnnotations refuses changes of annotations that say what the pod was made as.
func validateFixedAnnotations(now, was map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	refuse := func(key, change string) {
		if strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) {
			errs = append(errs, field.Forbidden(path.Key(key), "may not "+change+" AppArmor annotations"))
		}
		if key == mirrorAnnotation {
			errs = append(errs, field.Forbidden(path.Key(key), "may not "+change+" mirror pod annotation"))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if text, ok := now[key]; !ok || text != was[key] {
			refuse(key, "remove or update")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if _, ok := was[key]; !ok {
			refuse(key, "add")
		}
	}
	return errs
}

// validateImages wants each container to have an image still.
func validateImages(list []corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		if list[i].Image == "" {
			errs = append(errs, field.Required(path.Index(i).Child("image"), ""))
		}
		if image := list[i].Image; strings.TrimSpace(image) != image {
			errs = append(errs, field.Invalid(path.Index(i).Child("image"), image, "must not have leading or trailing whitespace"))
		}
	}
	return errs
}

func validateDeadline(now, was *int64, path *field.Path) field.ErrorList {
	switch {
	case now != nil && (*now < 0 || *now > math.MaxInt32):
		return field.ErrorList{field.Invalid(path, *now, validation.InclusiveRangeError(0, math.MaxInt32))}
	case was == nil:
		return nil
	case now == nil:
		return field.ErrorList{field.Invalid(path, now, "must not update from a positive integer to nil value")}
	case *now > *was:
		return field.ErrorList{field.Invalid(path, *now, "must be less than or equal to previous value")}
	}
	return nil
}

// validateTolerations lets tolerations be added, and their seconds change.
func validateTolerations(now, was []corev1.Toleration, path *field.Path) field.ErrorList {
	for _, t := range was {
		kept := slices.ContainsFunc(now, func(n corev1.Toleration) bool {
			return n.Key == t.Key && n.Operator == t.Operator && n.Value == t.Value && n.Effect == t.Effect
		})
		if !kept {
			return field.ErrorList{field.Forbidden(path, "existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return podspec.Tolerations(now, path)
}

func validateGates(now, was []corev1.PodSchedulingGate, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, g := range now {
		if !slices.Contains(was, g) && !slices.Contains(now[i+1:], g) { // one that comes twice is told of once
			errs = append(errs, field.Forbidden(path.Index(i).Child("name"),
				fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", g.Name)))
		}
	}
	return errs
}
