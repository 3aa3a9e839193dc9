// Package claim is the kind PersistentVolumeClaim.
package claim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/kind/unversioned"
	"howdah.dev/services/apiserver/internal/registry"
)

// Kind returns the kind; now is the clock for ages.
func Kind(now func() time.Time) *registry.Kind {
	k := row.Of[corev1.PersistentVolumeClaim, corev1.PersistentVolumeClaimList](corev1.SchemeGroupVersion, "persistentvolumeclaims")
	k.Namespaced, k.ShortNames = true, []string{"pvc"}
	k.Default = typed.Do(Default)
	k.PrepareCreate = typed.Do(func(c *corev1.PersistentVolumeClaim) {
		c.Status = corev1.PersistentVolumeClaimStatus{}
		dropSources(&c.Spec)
		sameSource(&c.Spec)
	})
	k.Settle = typed.Do(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending })
	k.PrepareUpdate = typed.Change(func(c, old *corev1.PersistentVolumeClaim) {
		c.Status = old.Status
		dropChangedSources(&c.Spec, &old.Spec)
		sameSource(&c.Spec)
	})
	typed.Ratchet(k, func(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
		path := field.NewPath("spec")
		errs := podspec.ClaimSpec(&c.Spec, path)
		if old == nil || !grouped(&old.Spec) {
			return errs
		}
		// Where a claim names the group of its source, groups are not looked at any more.
		first, second := path.Child("dataSource", "apiGroup").String(), path.Child("dataSourceRef", "apiGroup").String()
		return slices.DeleteFunc(errs, func(err *field.Error) bool { return err.Field == first || err.Field == second })
	})
	k.ValidateUpdate = typed.CheckChange(validateUpdate)
	k.Warnings = typed.Warn(func(c, _ *corev1.PersistentVolumeClaim) []string {
		var out []string
		if _, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
			out = append(out, "metadata.annotations["+corev1.BetaStorageClassAnnotation+`]: deprecated since v1.8; use "storageClassName" attribute instead`)
		}
		return append(out, podspec.ClaimWarnings(&c.Spec, field.NewPath("spec"))...)
	})
	row.Status(k, func(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaimSpec { return &c.Spec }, validateStatus)
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(),
		column.String("Status", corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()["phase"]),
		column.String("Volume", corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["volumeName"]),
		column.String("Capacity", corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()["capacity"]),
		column.String("Access Modes", corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()["accessModes"]),
		column.String("StorageClass", "StorageClass of the pvc"),
		column.String("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
		column.Age(),
		column.Wide(column.String("VolumeMode", corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["volumeMode"])),
	}
	k.Cells = typed.Get(func(c *corev1.PersistentVolumeClaim) []any { return cells(c, now()) })
	return k
}

// Default fills unset fields.
func Default(c *corev1.PersistentVolumeClaim) {
	if c.Status.Phase == "" {
		c.Status.Phase = corev1.ClaimPending
	}
	row.Set(&c.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	for _, list := range []corev1.ResourceList{c.Spec.Resources.Limits, c.Spec.Resources.Requests, c.Status.Capacity, c.Status.AllocatedResources} {
		podspec.RoundUp(list)
	}
}

// DefaultTemplate fills a claim that is part of a StatefulSet, where it says its kind.
func DefaultTemplate(c *corev1.PersistentVolumeClaim) {
	Default(c)
	Name(c)
}

// Name says of what version and kind a claim is that is part of another object, whatever a client said.
func Name(c *corev1.PersistentVolumeClaim) { c.APIVersion, c.Kind = "v1", "PersistentVolumeClaim" }

// grouped tells whether the source of a claim says its group.
func grouped(s *corev1.PersistentVolumeClaimSpec) bool {
	return s.DataSource != nil && s.DataSource.APIGroup != nil || s.DataSourceRef != nil && s.DataSourceRef.APIGroup != nil
}

// dropSources forgets what Kubernetes has never supported as the older field, and sources in other namespaces, a
// feature (CrossNamespaceVolumeDataSource) that is off by default.
func dropSources(s *corev1.PersistentVolumeClaimSpec) {
	if s.DataSourceRef != nil && row.Deref(s.DataSourceRef.Namespace) != "" {
		s.DataSourceRef = nil
	}
	dropOldSource(s)
}

// dropChangedSources is dropSources for a changed claim; one that has a source keeps what it says of it.
func dropChangedSources(s, old *corev1.PersistentVolumeClaimSpec) {
	if s.DataSourceRef != nil && row.Deref(s.DataSourceRef.Namespace) != "" && old.DataSourceRef == nil {
		s.DataSourceRef = nil
	}
	if old.DataSource == nil && old.DataSourceRef == nil {
		dropOldSource(s)
	}
}

// dropOldSource forgets what the older field has never been able to name, where it stands alone.
func dropOldSource(s *corev1.PersistentVolumeClaimSpec) {
	if d := s.DataSource; d != nil && s.DataSourceRef == nil {
		group := row.Deref(d.APIGroup)
		claim := d.Kind == "PersistentVolumeClaim" && group == ""
		if !claim && (d.Kind != "VolumeSnapshot" || group != "snapshot.storage.k8s.io") {
			s.DataSource = nil
		}
	}
}

// sameSource keeps the old and the new field for the source of the data the
// same, but for a source in another namespace, which the old one cannot name.
func sameSource(s *corev1.PersistentVolumeClaimSpec) {
	switch {
	case s.DataSource != nil && s.DataSourceRef == nil:
		s.DataSourceRef = &corev1.TypedObjectReference{APIGroup: s.DataSource.APIGroup, Kind: s.DataSource.Kind, Name: s.DataSource.Name}
	case s.DataSource == nil && s.DataSourceRef != nil && row.Deref(s.DataSourceRef.Namespace) == "":
		s.DataSource = &corev1.TypedLocalObjectReference{APIGroup: s.DataSourceRef.APIGroup, Kind: s.DataSourceRef.Kind, Name: s.DataSourceRef.Name}
	}
}

func validateUpdate(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	path := field.NewPath("spec")
	now, was := c.Spec.DeepCopy(), old.Spec.DeepCopy()
	if was.VolumeName == "" {
		was.VolumeName = now.VolumeName // the binding
	}
	var errs field.ErrorList
	annotated, hadClass := old.Annotations[corev1.BetaStorageClassAnnotation]
	class, hasClass := c.Annotations[corev1.BetaStorageClassAnnotation]
	switch {
	case hadClass && was.StorageClassName == nil && now.StorageClassName != nil && *now.StorageClassName == annotated && (!hasClass || class == annotated):
		now.StorageClassName = nil // the field takes over from the annotation
	default:
		errs = check.Same(class, annotated, field.NewPath("metadata", "annotations", corev1.BetaStorageClassAnnotation))
		if was.StorageClassName == nil && !hadClass {
			now.StorageClassName = nil // a default class that came later
		}
	}
	if old.Status.Phase == corev1.ClaimBound {
		if now.Resources.Requests != nil {
			now.Resources.Requests[corev1.ResourceStorage] = was.Resources.Requests[corev1.ResourceStorage]
		}
		now.VolumeAttributesClassName = was.VolumeAttributesClassName
	}
	if !equality.Semantic.DeepEqual(now, was) {
		errs = append(errs, field.Forbidden(path, "spec is immutable after creation except resources.requests and "+
			"volumeAttributesClassName for bound claims\n"+diff.Diff(unversioned.Form(was), unversioned.Form(now))))
	}
	size, before := c.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if size.Cmp(before) < 0 && size.Cmp(old.Status.Capacity[corev1.ResourceStorage]) <= 0 {
		errs = append(errs, field.Forbidden(path.Child("resources", "requests", "storage"), "field can not be less than status.capacity"))
	}
	errs = append(errs, check.Same(c.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...) // so spelled
	attributes := c.Spec.VolumeAttributesClassName
	if attributes == nil && old.Spec.VolumeAttributesClassName != nil && old.Status.CurrentVolumeAttributesClassName != nil {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "volumeAttributesClassName"),
			"update to nil is forbidden when status.currentVolumeAttributesClassName is not nil"))
	}
	if attributes != nil && *attributes == "" && old.Status.CurrentVolumeAttributesClassName != nil {
		errs = append(errs, field.Forbidden(path.Child("volumeAttributesClassName"),
			"update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil"))
	}
	return errs
}

func cells(c *corev1.PersistentVolumeClaim, now time.Time) []any {
	phase := string(c.Status.Phase)
	if c.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	capacity, modes := "", ""
	if c.Spec.VolumeName != "" {
		q := c.Status.Capacity[corev1.ResourceStorage]
		capacity, modes = q.String(), Modes(c.Status.AccessModes)
	}
	return []any{
		c.Name, phase, c.Spec.VolumeName, capacity, modes, row.Deref(c.Spec.StorageClassName),
		column.Or(row.Deref(c.Spec.VolumeAttributesClassName), "<unset>"), column.Since(now, c.CreationTimestamp.Time),
		column.Or(string(row.Deref(c.Spec.VolumeMode)), "<unset>"),
	}
}

// Modes is "RWO,ROX": the ways to mount, short, each once and in Kubernetes' order.
func Modes(modes []corev1.PersistentVolumeAccessMode) string {
	var out []string
	for _, m := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"}} {
		for _, have := range modes {
			if have == m.mode {
				out = append(out, m.short)
				break
			}
		}
	}
	return strings.Join(out, ",")
}

// Reference is "namespace/name", or "" for nil.
func Reference(r *corev1.ObjectReference) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%s/%s", r.Namespace, r.Name)
}
