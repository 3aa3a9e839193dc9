// Package statefulset is the kind StatefulSet: stored as apps/v1, served as
// apps/v1beta1 and apps/v1beta2 too.
package statefulset

import (
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/claim"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/kind/workload"
	"howdah.dev/services/apiserver/internal/registry"
)

// Kind returns the kind; now is the clock for ages.
func Kind(now func() time.Time) *registry.Kind {
	k := row.Of[appsv1.StatefulSet, appsv1.StatefulSetList](appsv1.SchemeGroupVersion, "statefulsets")
	k.Namespaced, k.ShortNames, k.Categories = true, []string{"sts"}, []string{"all"}
	k.Served = []registry.Version{v1beta2Version(), v1beta1Version()}
	// The name becomes part of host names.
	k.NameIsValid = validation.NameIsDNSLabel
	row.SpecStatus(k, func(s *appsv1.StatefulSet) *appsv1.StatefulSetSpec { return &s.Spec },
		func(s *appsv1.StatefulSet) *appsv1.StatefulSetStatus { return &s.Status }, validateStatus)
	k.Default = typed.Do(func(s *appsv1.StatefulSet) { fill(s, appsv1.RollingUpdateStatefulSetStrategyType) })
	k.Blank = func() registry.Object { return &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: new(int32)}} }
	k.Restore = typed.Do(func(s *appsv1.StatefulSet) {
		for i := range s.Spec.VolumeClaimTemplates {
			claim.Name(&s.Spec.VolumeClaimTemplates[i])
		}
	})
	k.ValidateCreate = typed.Check(func(s *appsv1.StatefulSet) field.ErrorList { return validate(s, true, false) })
	k.ValidateUpdate = typed.CheckChange(validateUpdate)
	k.Warnings = typed.Warn(warnings)
	k.Scale = &registry.Scale{
		Get: func(obj registry.Object) (int32, int32, string) {
			s := obj.(*appsv1.StatefulSet)
			return row.Deref(s.Spec.Replicas), s.Status.Replicas, workload.Selector(s.Spec.Selector)
		},
		Set: func(obj registry.Object, replicas int32) error {
			obj.(*appsv1.StatefulSet).Spec.Replicas = &replicas
			return nil
		},
	}
	k.Columns = append([]metav1.TableColumnDefinition{
		column.Name(),
		column.String("Ready", "Number of the pod with ready state"),
		column.Age(),
	}, workload.PodColumns()...)
	k.Cells = typed.Get(func(s *appsv1.StatefulSet) []any {
		names, images := column.Containers(s.Spec.Template.Spec.Containers)
		return []any{
			s.Name, fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, row.Deref(s.Spec.Replicas)),
			column.Since(now(), s.CreationTimestamp.Time), names, images,
		}
	})
	return k
}

// MaxUnavailable is the feature gate of updates that have more than one pod unavailable.
const MaxUnavailable = "MaxUnavailableStatefulSet"

// DefaultUnavailable sets the default that comes with the gate.
func DefaultUnavailable(obj registry.Object) {
	u := obj.(*appsv1.StatefulSet).Spec.UpdateStrategy
	if u.Type == appsv1.RollingUpdateStatefulSetStrategyType && u.RollingUpdate != nil {
		row.Set(&u.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
	}
}

// DropUnavailable forgets what belongs to the gate, unless the set before, which may be nil, has it.
func DropUnavailable(s, old *appsv1.StatefulSet) {
	if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil && !(old != nil && old.Spec.UpdateStrategy.RollingUpdate != nil && old.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable != nil) {
		r.MaxUnavailable = nil
	}
}

// fill sets the defaults; the versions differ in the strategy.
func fill(s *appsv1.StatefulSet, strategy appsv1.StatefulSetUpdateStrategyType) {
	spec := &s.Spec
	if spec.PodManagementPolicy == "" {
		spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	}
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = strategy
		if strategy == appsv1.RollingUpdateStatefulSetStrategyType {
			row.Set(&spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
		}
	}
	if spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType && spec.UpdateStrategy.RollingUpdate != nil {
		row.Set(&spec.UpdateStrategy.RollingUpdate.Partition, 0)
	}
	row.Set(&spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	p := spec.PersistentVolumeClaimRetentionPolicy
	if p.WhenDeleted == "" {
		p.WhenDeleted = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	if p.WhenScaled == "" {
		p.WhenScaled = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	row.Set(&spec.Replicas, 1)
	row.Set(&spec.RevisionHistoryLimit, 10)
	podspec.Default(&spec.Template.Spec)
	for i := range spec.VolumeClaimTemplates {
		claim.DefaultTemplate(&spec.VolumeClaimTemplates[i])
	}
}

// fillFromTemplate is how apps/v1beta1 takes the selector, and the labels of a
// set without labels, from those of the template.
func fillFromTemplate(s *appsv1.StatefulSet) {
	if labels := s.Spec.Template.Labels; len(labels) > 0 {
		if s.Spec.Selector == nil {
			s.Spec.Selector = &metav1.LabelSelector{MatchLabels: maps.Clone(labels)}
		}
		if len(s.Labels) == 0 {
			s.Labels = maps.Clone(labels)
		}
	}
}

// warnings tells of what is in a set; of its template no more where it did not change.
func warnings(s, old *appsv1.StatefulSet) []string {
	var out []string
	if old == nil || old.Generation != s.Generation {
		out = podspec.TemplateWarnings(&s.Spec.Template)
	}
	path := field.NewPath("spec")
	for i := range s.Spec.VolumeClaimTemplates {
		at := path.Child("volumeClaimTemplates").Index(i)
		if old != nil {
			at = at.Child("Spec") // so Kubernetes calls it there
		}
		out = append(out, podspec.ClaimWarnings(&s.Spec.VolumeClaimTemplates[i].Spec, at)...)
	}
	if n := s.Spec.RevisionHistoryLimit; n != nil && *n < 0 {
		out = append(out, path.Child("revisionHistoryLimit").String()+": a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return out
}
