package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/check"
)

// ClaimSpec checks the spec of a claim of a volume.
func ClaimSpec(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.AccessModes) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), "at least 1 access mode is required"))
	}
	if spec.Selector != nil {
		errs = append(errs, metavalidation.ValidateLabelSelector(spec.Selector, metavalidation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
	}
	errs = append(errs, AccessModes(spec.AccessModes, path.Child("accessModes"))...)
	size, ok := spec.Resources.Requests[corev1.ResourceStorage]
	switch request := path.Child("resources").Key(string(corev1.ResourceStorage)); {
	case !ok:
		errs = append(errs, field.Required(request, ""))
	case size.Sign() <= 0:
		errs = append(errs, field.Invalid(request, size.String(), check.NotPositive))
	}
	for _, c := range []struct {
		name  string
		value *string
	}{{"storageClassName", spec.StorageClassName}, {"volumeAttributesClassName", spec.VolumeAttributesClassName}} {
		if c.value != nil && *c.value != "" {
			errs = append(errs, check.Subdomain(*c.value, path.Child(c.name))...)
		}
	}
	if m := spec.VolumeMode; m != nil {
		errs = append(errs, check.OneOf(*m, path.Child("volumeMode"), corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)...)
	}
	if d := spec.DataSource; d != nil {
		errs = append(errs, dataSource(d.APIGroup, d.Kind, d.Name, path.Child("dataSource"))...)
	}
	if d := spec.DataSourceRef; d != nil {
		errs = append(errs, dataSource(d.APIGroup, d.Kind, d.Name, path.Child("dataSourceRef"))...)
		if n := ptr.Deref(d.Namespace, ""); n != "" {
			errs = append(errs, check.Label(n, path.Child("dataSourceRef", "namespace"))...)
		}
		switch old := spec.DataSource; {
		case old == nil:
		case ptr.Deref(d.Namespace, "") != "":
			errs = append(errs, field.Invalid(path, struct{}{}, "may not be specified when dataSourceRef.namespace is specified"))
		case !ptr.Equal(old.APIGroup, d.APIGroup) || old.Kind != d.Kind || old.Name != d.Name:
			errs = append(errs, field.Invalid(path, struct{}{}, "must match dataSourceRef"))
		}
	}
	return errs
}

// AccessModes checks the ways in which a volume may be mounted.
func AccessModes(modes []corev1.PersistentVolumeAccessMode, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, m := range modes {
		errs = append(errs, check.OneOf(m, path, corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod)...)
	}
	others := slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteOnce || m == corev1.ReadOnlyMany || m == corev1.ReadWriteMany
	})
	if others && slices.Contains(modes, corev1.ReadWriteOncePod) {
		errs = append(errs, field.Forbidden(path, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

func dataSource(group *string, kind, name string, path *field.Path) field.ErrorList {
	errs := need(path, "name", name, "kind", kind)
	if group != nil && *group != "" {
		errs = append(errs, check.Subdomain(*group, path.Child("apiGroup"))...)
	}
	if (group == nil || *group == "") && kind != "PersistentVolumeClaim" {
		errs = append(errs, field.Invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
	}
	return errs
}
