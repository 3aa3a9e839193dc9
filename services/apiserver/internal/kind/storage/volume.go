// Package storage has the kinds of volumes: PersistentVolume and those of storage.k8s.io.
package storage

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/claim"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/kind/unversioned"
	"howdah.dev/services/apiserver/internal/registry"
)

// Kinds returns the kinds; now is the clock for ages.
func Kinds(now func() time.Time) []*registry.Kind {
	return []*registry.Kind{volume(now), class(now), attachment(now), driver(now), node(now), capacity(), attributesClass(now)}
}

func volume(now func() time.Time) *registry.Kind {
	type pv = corev1.PersistentVolume
	k := row.Of[pv, corev1.PersistentVolumeList](corev1.SchemeGroupVersion, "persistentvolumes")
	k.ShortNames = []string{"pv"}
	k.Default = typed.Do(func(v *pv) {
		if v.Status.Phase == "" {
			v.Status.Phase = corev1.VolumePending
		}
		if v.Spec.PersistentVolumeReclaimPolicy == "" {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}
		row.Set(&v.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
		defaultSource(&v.Spec.PersistentVolumeSource)
		podspec.RoundUp(v.Spec.Capacity)
	})
	k.PrepareCreate = typed.Do(func(v *pv) {
		t := metav1.NewTime(now())
		v.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: &t}
	})
	k.PrepareUpdate = typed.Change(func(v, old *pv) { v.Status = old.Status })
	row.Status(k, func(v *pv) *corev1.PersistentVolumeSpec { return &v.Spec }, nil)
	keep := k.Status.PrepareUpdate
	k.Status.PrepareUpdate = func(obj, old registry.Object) {
		keep(obj, old)
		switch s, was := &obj.(*pv).Status, old.(*pv).Status; {
		case s.Phase == was.Phase && s.LastPhaseTransitionTime == nil:
			s.LastPhaseTransitionTime = was.LastPhaseTransitionTime
		case s.Phase != was.Phase && (s.LastPhaseTransitionTime == nil || s.LastPhaseTransitionTime.Equal(was.LastPhaseTransitionTime)):
			t := metav1.NewTime(now())
			s.LastPhaseTransitionTime = &t
		}
	}
	k.Validate = typed.Check(validateVolume)
	k.ValidateUpdate = typed.CheckChange(validateVolumeUpdate)
	k.Warnings = typed.Warn(func(v, _ *pv) []string { return podspec.PersistentVolumeWarnings(&v.ObjectMeta, &v.Spec) })
	doc := corev1.PersistentVolumeSpec{}.SwaggerDoc()
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(),
		column.String("Capacity", doc["capacity"]),
		column.String("Access Modes", doc["accessModes"]),
		column.String("Reclaim Policy", doc["persistentVolumeReclaimPolicy"]),
		column.String("Status", corev1.PersistentVolumeStatus{}.SwaggerDoc()["phase"]),
		column.String("Claim", doc["claimRef"]),
		column.String("StorageClass", "StorageClass of the pv"),
		column.String("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
		column.String("Reason", corev1.PersistentVolumeStatus{}.SwaggerDoc()["reason"]),
		column.Age(),
		column.Wide(column.String("VolumeMode", doc["volumeMode"])),
	}
	k.Cells = typed.Get(func(v *pv) []any {
		phase := string(v.Status.Phase)
		if v.DeletionTimestamp != nil {
			phase = "Terminating"
		}
		size := v.Spec.Capacity[corev1.ResourceStorage]
		return []any{
			v.Name, size.String(), claim.Modes(v.Spec.AccessModes), string(v.Spec.PersistentVolumeReclaimPolicy), phase,
			claim.Reference(v.Spec.ClaimRef), v.Spec.StorageClassName, column.Or(row.Deref(v.Spec.VolumeAttributesClassName), "<unset>"),
			v.Status.Reason, column.Since(now(), v.CreationTimestamp.Time), column.Or(string(row.Deref(v.Spec.VolumeMode)), "<unset>"),
		}
	})
	return k
}

func validateVolume(v *corev1.PersistentVolume) field.ErrorList {
	return volumeSpec(&v.Spec, false, field.NewPath("spec"))
}

// volumeSpec checks a spec; inline ones are part of an attachment, and have no
// capacity, class or reclaim policy of their own.
func volumeSpec(s *corev1.PersistentVolumeSpec, inline bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(s.AccessModes) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), ""))
	}
	errs = append(errs, podspec.AccessModes(s.AccessModes, path.Child("accessModes"))...)
	if !inline {
		at := path.Child("capacity")
		if len(s.Capacity) == 0 {
			errs = append(errs, field.Required(at, ""))
		}
		if _, ok := s.Capacity[corev1.ResourceStorage]; !ok || len(s.Capacity) > 1 {
			errs = append(errs, field.NotSupported(at, s.Capacity, []corev1.ResourceName{corev1.ResourceStorage}))
		}
		for _, name := range slices.Sorted(maps.Keys(s.Capacity)) {
			size := s.Capacity[name]
			if size.Value() < 0 { // so Kubernetes counts it, which overflows
				errs = append(errs, field.Invalid(at.Key(string(name)), size.Value(), "must be a valid resource quantity"))
			}
			if size.Sign() <= 0 || size.Value() < 0 {
				errs = append(errs, field.Invalid(at.Key(string(name)), size.String(), check.NotPositive))
			}
		}
		errs = append(errs, check.OneOf(s.PersistentVolumeReclaimPolicy, path.Child("persistentVolumeReclaimPolicy"),
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)...)
	}
	if a := s.NodeAffinity; a != nil {
		if a.Required == nil {
			errs = append(errs, field.Required(path.Child("nodeAffinity", "required"), "must specify required node constraints"))
		} else {
			errs = append(errs, podspec.NodeSelector(a.Required, path.Child("nodeAffinity", "required"))...)
		}
	}
	errs = append(errs, volumeSource(s, path)...)
	if s.HostPath != nil && s.HostPath.Path == "/" && s.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		errs = append(errs, field.Forbidden(path.Child("persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'"))
	}
	if s.StorageClassName != "" {
		errs = append(errs, check.Subdomain(s.StorageClassName, path.Child("storageClassName"))...)
	}
	if m := s.VolumeMode; m != nil {
		errs = append(errs, check.OneOf(*m, path.Child("volumeMode"), corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)...)
	}
	return append(errs, attributesClassName(s, path)...)
}

// attributesClassName checks the class that only volumes of drivers have.
func attributesClassName(s *corev1.PersistentVolumeSpec, path *field.Path) field.ErrorList {
	name, at := s.VolumeAttributesClassName, path.Child("volumeAttributesClassName")
	if name == nil {
		return nil
	}
	var errs field.ErrorList
	if *name == "" {
		errs = append(errs, field.Required(at, "an empty string is disallowed"))
	} else {
		errs = append(errs, check.Subdomain(*name, at)...)
	}
	if s.CSI == nil {
		errs = append(errs, field.Required(path.Child("csi"), "has to be specified when using volumeAttributesClassName"))
	}
	return errs
}

func validateVolumeUpdate(v, old *corev1.PersistentVolume) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if now, was := &v.Spec.PersistentVolumeSource, &old.Spec.PersistentVolumeSource; !equality.Semantic.DeepEqual(now, was) {
		errs = append(errs, field.Forbidden(path.Child("persistentvolumesource"),
			"spec.persistentvolumesource is immutable after creation\n"+diff.Diff(unversioned.Form(was), unversioned.Form(now))))
	}
	errs = append(errs, check.Same(v.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...) // so spelled
	if was := old.Spec.NodeAffinity; was != nil && !graduated().DeepEqual(v.Spec.NodeAffinity, was) {
		errs = append(errs, field.Invalid(field.NewPath("nodeAffinity"), v.Spec.NodeAffinity, "field is immutable, except for updating from beta label to GA"))
	}
	if old.Spec.VolumeAttributesClassName != nil && v.Spec.VolumeAttributesClassName == nil {
		errs = append(errs, field.Forbidden(path.Child("volumeAttributesClassName"), "update from non-nil value to nil is forbidden"))
	}
	return errs
}

// successors are the labels that took the place of others.
var successors = map[string]string{
	corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
	corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	"beta.kubernetes.io/os":             corev1.LabelOSStable,
	"beta.kubernetes.io/arch":           corev1.LabelArchStable,
	corev1.LabelInstanceType:            corev1.LabelInstanceTypeStable,
}

// graduated compares affinities, where the newer one may name the successor of a label.
func graduated() conversion.Equalities {
	equal := equality.Semantic.Copy()
	// It fails for what is no function of two arguments of one type.
	_ = equal.AddFunc(func(now, was corev1.NodeSelectorRequirement) bool {
		if successors[was.Key] == now.Key {
			was.Key = now.Key
		}
		return equality.Semantic.DeepEqual(now, was)
	})
	return equal
}
