package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

func (s *scope) validateMounts(c *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	devices := map[string]string{} // of a name that comes twice, the last counts
	for _, d := range c.VolumeDevices {
		devices[d.Name] = d.DevicePath
	}
	seen := map[string]bool{}
	for i, m := range c.VolumeMounts {
		at := path.Index(i)
		if m.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		if _, ok := s.volumes[m.Name]; !ok {
			errs = append(errs, field.NotFound(at.Child("name"), m.Name))
		}
		if m.MountPath == "" {
			errs = append(errs, field.Required(at.Child("mountPath"), ""))
		}
		if seen[m.MountPath] {
			errs = append(errs, field.Invalid(at.Child("mountPath"), m.MountPath, "must be unique"))
		}
		seen[m.MountPath] = true
		if _, device := devices[m.Name]; device {
			errs = append(errs, field.Invalid(at.Child("name"), m.Name, "must not already exist in volumeDevices"))
		}
		if has(devices, m.MountPath) {
			errs = append(errs, field.Invalid(at.Child("mountPath"), m.MountPath, "must not already exist as a path in volumeDevices"))
		}
		// Kubernetes names the list in these errors, not the item.
		errs = append(errs, validateSubPaths(&m, path, at)...)
		errs = append(errs, validatePropagation(&m, c, path)...)
	}
	return errs
}

func validateSubPaths(m *corev1.VolumeMount, path, item *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.SubPath != "" {
		errs = append(errs, check.RelativePath(m.SubPath, path.Child("subPath"))...)
	}
	if m.SubPathExpr == "" {
		return errs
	}
	if m.SubPath != "" {
		errs = append(errs, field.Invalid(item.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
	}
	return append(errs, check.RelativePath(m.SubPathExpr, path.Child("subPathExpr"))...)
}

func validatePropagation(m *corev1.VolumeMount, c *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p := m.MountPropagation; p != nil {
		at := path.Child("mountPropagation")
		errs = append(errs, check.OneOf(*p, at, corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)...)
		privileged := c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
		if *p == corev1.MountPropagationBidirectional && !privileged {
			errs = append(errs, field.Forbidden(at, "Bidirectional mount propagation is available only to privileged containers"))
		}
	}
	r := m.RecursiveReadOnly
	if r == nil || *r == corev1.RecursiveReadOnlyDisabled {
		return errs
	}
	at := path.Child("recursiveReadOnly")
	if bad := check.OneOf(*r, at, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible); len(bad) > 0 {
		return append(errs, bad...)
	}
	if !m.ReadOnly {
		errs = append(errs, field.Forbidden(at, "may only be specified when readOnly is true"))
	}
	if p := m.MountPropagation; p != nil && *p != corev1.MountPropagationNone {
		errs = append(errs, field.Forbidden(at, "may only be specified when mountPropagation is None or not specified"))
	}
	return errs
}

func (s *scope) validateDevices(c *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	mounts := map[string]string{} // of a name that comes twice, the last counts
	for _, m := range c.VolumeMounts {
		mounts[m.Name] = m.MountPath
	}
	seenPath, seenName := map[string]bool{}, map[string]bool{}
	for i, d := range c.VolumeDevices {
		at := path.Index(i)
		if d.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		if seenName[d.Name] {
			errs = append(errs, field.Invalid(at.Child("name"), d.Name, "must be unique"))
		}
		switch v, ok := s.volumes[d.Name]; {
		case !ok:
			errs = append(errs, field.NotFound(at.Child("name"), d.Name))
		case v.PersistentVolumeClaim == nil && v.Ephemeral == nil:
			errs = append(errs, field.Invalid(at.Child("name"), d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
		}
		if d.DevicePath == "" {
			errs = append(errs, field.Required(at.Child("devicePath"), ""))
		}
		if seenPath[d.DevicePath] {
			errs = append(errs, field.Invalid(at.Child("devicePath"), d.DevicePath, "must be unique"))
		}
		if d.DevicePath != "" && len(check.NoBacksteps(d.DevicePath, at)) > 0 {
			errs = append(errs, field.Invalid(at.Child("devicePath"), d.DevicePath, "can not contain backsteps ('..')"))
		} else {
			seenPath[d.DevicePath] = true // such as is none is not compared, but the empty one is
		}
		if _, mounted := mounts[d.Name]; mounted {
			errs = append(errs, field.Invalid(at.Child("name"), d.Name, "must not already exist in volumeMounts"))
		}
		if has(mounts, d.DevicePath) {
			errs = append(errs, field.Invalid(at.Child("devicePath"), d.DevicePath, "must not already exist as a path in volumeMounts"))
		}
		if d.Name != "" {
			seenName[d.Name] = true
		}
	}
	return errs
}

// has reports whether one of the names stands for that path.
func has(paths map[string]string, path string) bool {
	for _, p := range paths {
		if p == path {
			return true
		}
	}
	return false
}
