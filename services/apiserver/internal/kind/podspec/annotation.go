package podspec

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/check"
)

// Annotations with a meaning for pods, most of them the form that a field had before it was one.
const (
	tolerationsAnnotation = "scheduler.alpha.kubernetes.io/tolerations"
	seccompPod            = "seccomp.security.alpha.kubernetes.io/pod"
	seccompContainer      = "container.seccomp.security.alpha.kubernetes.io/"
	appArmorContainer     = "container.apparmor.security.beta.kubernetes.io/"
	localhost             = "localhost/"
)

// validateAnnotations checks the annotations that mean something for a pod.
func validateAnnotations(meta *metav1.ObjectMeta, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if _, mirror := meta.Annotations[corev1.MirrorPodAnnotationKey]; mirror && spec.NodeName == "" {
		errs = append(errs, field.Invalid(path.Key(corev1.MirrorPodAnnotationKey), meta.Annotations[corev1.MirrorPodAnnotationKey],
			"must set spec.nodeName if mirror pod annotation is set"))
	}
	if text := meta.Annotations[tolerationsAnnotation]; text != "" {
		var list []corev1.Toleration
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			errs = append(errs, field.Invalid(path, tolerationsAnnotation, err.Error()))
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
	if !named(spec, container) {
		return field.ErrorList{field.Invalid(path, container, "container not found")}
	}
	if profile == "" || profile == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault || profile == corev1.DeprecatedAppArmorBetaProfileNameUnconfined ||
		strings.HasPrefix(profile, localhost) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, profile, "invalid AppArmor profile name: "+strconv.Quote(profile))}
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

// AppArmorFields sets the fields of a new pod's containers as its annotations say.
func AppArmorFields(meta *metav1.ObjectMeta, spec *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			profile := appArmorProfile(meta.Annotations[appArmorContainer+list[i].Name])
			if profile == nil || list[i].SecurityContext != nil && list[i].SecurityContext.AppArmorProfile != nil {
				continue
			}
			if list[i].SecurityContext == nil {
				list[i].SecurityContext = &corev1.SecurityContext{}
			}
			list[i].SecurityContext.AppArmorProfile = profile
		}
	}
}

// validateAppArmorFields wants that fields and annotations agree.
func validateAppArmorFields(annotations map[string]string, spec *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	for _, part := range []struct {
		name string
		list []corev1.Container
	}{{"initContainers", spec.InitContainers}, {"containers", spec.Containers}} {
		for i, c := range part.list {
			profile := appArmorProfile(annotations[appArmorContainer+c.Name])
			if profile == nil || c.SecurityContext == nil || c.SecurityContext.AppArmorProfile == nil {
				continue
			}
			at := field.NewPath("spec", part.name).Index(i).Child("securityContext", "appArmorProfile")
			have := c.SecurityContext.AppArmorProfile
			if have.Type != profile.Type {
				errs = append(errs, field.Forbidden(at.Child("type"), "apparmor type in annotation and field must match"))
			} else if have.LocalhostProfile != nil && profile.LocalhostProfile != nil && *have.LocalhostProfile != *profile.LocalhostProfile {
				errs = append(errs, field.Forbidden(at.Child("localhostProfile"), "apparmor profile in annotation and field must match"))
			}
		}
	}
	return errs
}
