package podspec

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

// Annotations with a meaning for pods, most of them the form that a field had before it was one.
const (
	tolerationsAnnotation = "scheduler.alpha.kubernetes.io/tolerations"
	seccompPod            = "seccomp.security.alpha.kubernetes.io/pod"
	seccompContainer      = "container.seccomp.security.alpha.kubernetes.io/"
	appArmorContainer     = "container.apparmor.security.beta.kubernetes.io/"
	localhost             = "localhost/"
)

// ValidateAnnotations checks the annotations that mean something for a pod.
func ValidateAnnotations(meta *metav1.ObjectMeta, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if _, mirror := meta.Annotations[corev1.MirrorPodAnnotationKey]; mirror && spec.NodeName == "" {
		errs = append(errs, field.Invalid(path.Key(corev1.MirrorPodAnnotationKey), meta.Annotations[corev1.MirrorPodAnnotationKey],
			"must set spec.nodeName if mirror pod annotation is set"))
	}
	if text := meta.Annotations[tolerationsAnnotation]; text != "" {
		var list []corev1.Toleration
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			// Kubernetes reads it into the type that its own code has.
			errs = append(errs, field.Invalid(path, tolerationsAnnotation, strings.Replace(err.Error(), "v1.Toleration", "core.Toleration", 1)))
		} else {
			errs = append(errs, Tolerations(list, path.Child(tolerationsAnnotation))...)
		}
	}
	for _, key := range sortedKeys(meta.Annotations) {
		if key == seccompPod || strings.HasPrefix(key, seccompContainer) {
			errs = append(errs, validateSeccompName(meta.Annotations[key], path.Child(key))...)
		}
	}
	for _, key := range sortedKeys(meta.Annotations) {
		if name, ok := strings.CutPrefix(key, appArmorContainer); ok {
			errs = append(errs, validateAppArmorName(name, meta.Annotations[key], spec, path.Key(key))...)
		}
	}
	if cost, ok := meta.Annotations[corev1.PodDeletionCost]; ok && !isCost(cost) {
		errs = append(errs, field.Invalid(path.Key(corev1.PodDeletionCost), cost, "must be a 32bit integer"))
	}
	return errs
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// isCost reports a number without leading zeros or plus.
func isCost(text string) bool {
	n, err := strconv.ParseInt(text, 10, 32)
	return err == nil && strconv.FormatInt(n, 10) == text
}

func validateSeccompName(name string, path *field.Path) field.ErrorList {
	switch name {
	case corev1.SeccompProfileRuntimeDefault, corev1.DeprecatedSeccompProfileDockerDefault, corev1.SeccompProfileNameUnconfined:
		return nil
	}
	if file, ok := strings.CutPrefix(name, localhost); ok {
		return check.RelativePath(file, path)
	}
	return field.ErrorList{field.Invalid(path, name, "must be a valid seccomp profile")}
}

func validateAppArmorName(container, profile string, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !named(spec, container) {
		errs = append(errs, field.Invalid(path, container, "container not found"))
	}
	if profile == "" || profile == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault || profile == corev1.DeprecatedAppArmorBetaProfileNameUnconfined ||
		strings.HasPrefix(profile, localhost) {
		return errs
	}
	return append(errs, field.Invalid(path, profile, "invalid AppArmor profile name: "+strconv.Quote(profile)))
}

func named(spec *corev1.PodSpec, container string) bool {
	is := func(c corev1.Container) bool { return c.Name == container }
	return slices.ContainsFunc(spec.Containers, is) || slices.ContainsFunc(spec.InitContainers, is) ||
		slices.ContainsFunc(spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == container })
}

// appArmorProfile is the field that says what the annotation does; nil if that is nothing.
func appArmorProfile(text string) *corev1.AppArmorProfile {
	switch name, local := strings.CutPrefix(text, localhost); {
	case text == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case text == corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case local && name != "":
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	return nil
}

// AppArmorFields sets the fields of a new pod's containers as its annotations say, where that is another profile than the pod's own.
func AppArmorFields(meta *metav1.ObjectMeta, spec *corev1.PodSpec) {
	eachAppArmor(meta, spec, func(_ string, context **corev1.SecurityContext, profile *corev1.AppArmorProfile) {
		if profile == nil || equality.Semantic.DeepEqual(profile, podAppArmor(spec)) {
			return
		}
		if *context == nil {
			*context = &corev1.SecurityContext{}
		}
		(*context).AppArmorProfile = profile
	})
}

// AppArmorNotes tells of the annotations that AppArmorFields is going to make fields of, and of those that it cannot.
func AppArmorNotes(meta *metav1.ObjectMeta, spec *corev1.PodSpec) []string {
	var w warner
	eachAppArmor(meta, spec, func(name string, _ **corev1.SecurityContext, profile *corev1.AppArmorProfile) {
		if profile == nil || !equality.Semantic.DeepEqual(profile, podAppArmor(spec)) {
			w.say(field.NewPath("metadata", "annotations").Key(appArmorContainer+name), oldAppArmor)
		}
	})
	return w.out
}

// eachAppArmor calls f for each container that has the annotation, but not the field; profile is nil where the annotation is not valid.
func eachAppArmor(meta *metav1.ObjectMeta, spec *corev1.PodSpec, f func(name string, context **corev1.SecurityContext, profile *corev1.AppArmorProfile)) {
	if spec.OS != nil && spec.OS.Name == corev1.Windows {
		return
	}
	one := func(name string, context **corev1.SecurityContext) {
		key := appArmorContainer + name
		text, ok := meta.Annotations[key]
		if !ok || *context != nil && (*context).AppArmorProfile != nil {
			return
		}
		profile := appArmorProfile(text)
		if len(validateAppArmor(profile, nil)) > 0 {
			profile = nil
		}
		f(name, context, profile)
	}
	for i := range spec.InitContainers {
		one(spec.InitContainers[i].Name, &spec.InitContainers[i].SecurityContext)
	}
	for i := range spec.Containers {
		one(spec.Containers[i].Name, &spec.Containers[i].SecurityContext)
	}
	for i := range spec.EphemeralContainers {
		one(spec.EphemeralContainers[i].Name, &spec.EphemeralContainers[i].SecurityContext)
	}
}

func podAppArmor(spec *corev1.PodSpec) *corev1.AppArmorProfile {
	if spec.SecurityContext == nil {
		return nil
	}
	return spec.SecurityContext.AppArmorProfile
}

// matchAnnotations wants that the fields of a new pod, or of a template, say what its annotations say, for the latter are older.
func matchAnnotations(annotations map[string]string, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c := spec.SecurityContext; c != nil {
		errs = append(errs, matchSeccomp(annotations, seccompPod, c.SeccompProfile, path)...)
	}
	eachContainer(spec, path, func(name string, c *corev1.SecurityContext, at *field.Path) {
		if c != nil {
			errs = append(errs, matchSeccomp(annotations, seccompContainer+name, c.SeccompProfile, at)...)
		}
	})
	if spec.OS != nil && spec.OS.Name == corev1.Windows {
		return errs
	}
	eachContainer(spec, path, func(name string, c *corev1.SecurityContext, at *field.Path) {
		profile := podAppArmor(spec)
		if c != nil && c.AppArmorProfile != nil {
			profile = c.AppArmorProfile
		}
		errs = append(errs, matchAppArmor(annotations, appArmorContainer+name, profile, at.Child("securityContext", "appArmorProfile"))...)
	})
	return errs
}

// matchSeccomp compares the profile of the pod or container at path with the annotation key.
func matchSeccomp(annotations map[string]string, key string, profile *corev1.SeccompProfile, path *field.Path) field.ErrorList {
	text, ok := annotations[key]
	if !ok || profile == nil {
		return nil
	}
	at := path.Child("securityContext", "seccompProfile")
	other := field.ErrorList{field.Forbidden(at.Child("type"), "seccomp type in annotation and field must match")}
	name, local := strings.CutPrefix(text, localhost)
	switch profile.Type {
	case corev1.SeccompProfileTypeUnconfined:
		if text != corev1.SeccompProfileNameUnconfined {
			return other
		}
	case corev1.SeccompProfileTypeRuntimeDefault:
		if text != corev1.SeccompProfileRuntimeDefault && text != corev1.DeprecatedSeccompProfileDockerDefault {
			return other
		}
	case corev1.SeccompProfileTypeLocalhost:
		if !local {
			return other
		}
		if profile.LocalhostProfile == nil || *profile.LocalhostProfile != name {
			return field.ErrorList{field.Forbidden(at.Child("localhostProfile"), "seccomp profile in annotation and field must match")}
		}
	}
	return nil
}

// matchAppArmor compares the profile of a container, at path, with the annotation key.
func matchAppArmor(annotations map[string]string, key string, profile *corev1.AppArmorProfile, path *field.Path) field.ErrorList {
	text, ok := annotations[key]
	if !ok || profile == nil {
		return nil
	}
	name, local := strings.CutPrefix(text, localhost)
	same := true
	switch profile.Type {
	case corev1.AppArmorProfileTypeUnconfined:
		same = text == corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	case corev1.AppArmorProfileTypeRuntimeDefault:
		same = text == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case corev1.AppArmorProfileTypeLocalhost:
		same = local
		if local && (profile.LocalhostProfile == nil || *profile.LocalhostProfile != name) {
			return field.ErrorList{field.Forbidden(path.Child("localhostProfile"), "apparmor profile in annotation and field must match")}
		}
	}
	if !same {
		return field.ErrorList{field.Forbidden(path.Child("type"), "apparmor type in annotation and field must match")}
	}
	return nil
}
