// Package replicaset is the kind ReplicaSet: stored as apps/v1, served as
// extensions/v1beta1 and apps/v1beta2 too.
package replicaset

import (
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/kind/workload"
	"howdah.dev/services/apiserver/internal/registry"
)

var stored = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

// Kind returns the kind; now is the clock for ages.
func Kind(now func() time.Time) *registry.Kind {
	k := &registry.Kind{
		GVK:      stored,
		Blank:    func() registry.Object { return &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: new(int32)}} },
		Resource: "replicasets", Singular: "replicaset", ShortNames: []string{"rs"}, Categories: []string{"all"},
		Namespaced: true,
		New:        func() registry.Object { return &appsv1.ReplicaSet{} },
		NewList:    func() runtime.Object { return &appsv1.ReplicaSetList{} },
		Served:     []registry.Version{v1beta2Version(), extensionsVersion()},

		Default: typed.Do(fill),
		PrepareCreate: typed.Do(func(rs *appsv1.ReplicaSet) {
			rs.Status = appsv1.ReplicaSetStatus{}
			rs.Generation = 1
		}),
		PrepareUpdate: typed.Change(func(rs, old *appsv1.ReplicaSet) {
			rs.Status = old.Status
			rs.Generation = old.Generation
			if !equality.Semantic.DeepEqual(rs.Spec, old.Spec) {
				rs.Generation++
			}
		}),
		Validate:       typed.Check(validate),
		ValidateUpdate: typed.CheckChange(validateUpdate),
		Warnings: typed.WarnOfSpec(func(rs *appsv1.ReplicaSet) []string {
			return podspec.TemplateWarnings(&rs.Spec.Template)
		}),

		Status: &registry.Status{
			PrepareUpdate: typed.Change(func(rs, old *appsv1.ReplicaSet) {
				rs.Spec, rs.Generation = old.Spec, old.Generation
			}),
			ValidateUpdate: typed.CheckChange(validateStatusUpdate),
		},
		Scale: &registry.Scale{
			Get: func(obj registry.Object) (int32, int32, string) {
				rs := obj.(*appsv1.ReplicaSet)
				selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
				if err != nil {
					return deref(rs.Spec.Replicas), rs.Status.Replicas, ""
				}
				return deref(rs.Spec.Replicas), rs.Status.Replicas, selector.String()
			},
			Set: func(obj registry.Object, replicas int32) error {
				obj.(*appsv1.ReplicaSet).Spec.Replicas = &replicas
				return nil
			},
		},

		Columns: columns,
		Cells:   typed.Get(func(rs *appsv1.ReplicaSet) []any { return cells(rs, now()) }),
	}
	workload.Ratchet(k, func(rs *appsv1.ReplicaSet) *corev1.PodTemplateSpec { return &rs.Spec.Template })
	workload.WarnOfNames(k)
	return k
}

func fill(rs *appsv1.ReplicaSet) {
	if rs.Spec.Replicas == nil {
		one := int32(1)
		rs.Spec.Replicas = &one
	}
	podspec.Default(&rs.Spec.Template.Spec)
}

// fillFromTemplate is how extensions/v1beta1 takes the selector, and the labels
// of a ReplicaSet without labels, from those of the template.
func fillFromTemplate(rs *appsv1.ReplicaSet) {
	if labels := rs.Spec.Template.Labels; len(labels) > 0 {
		if rs.Spec.Selector == nil {
			rs.Spec.Selector = &metav1.LabelSelector{MatchLabels: maps.Clone(labels)}
		}
		if len(rs.Labels) == 0 {
			rs.Labels = maps.Clone(labels)
		}
	}
	fill(rs)
}

var columns = []metav1.TableColumnDefinition{
	column.Name(),
	column.Integer("Desired", appsv1.ReplicaSetSpec{}.SwaggerDoc()["replicas"]),
	column.Integer("Current", appsv1.ReplicaSetStatus{}.SwaggerDoc()["replicas"]),
	column.Integer("Ready", appsv1.ReplicaSetStatus{}.SwaggerDoc()["readyReplicas"]),
	column.Age(),
	column.Wide(column.String("Containers", "Names of each container in the template.")),
	column.Wide(column.String("Images", "Images referenced by each container in the template.")),
	column.Wide(column.String("Selector", appsv1.ReplicaSetSpec{}.SwaggerDoc()["selector"])),
}

func cells(rs *appsv1.ReplicaSet, now time.Time) []any {
	names, images := column.Containers(rs.Spec.Template.Spec.Containers)
	return []any{
		rs.Name, int64(deref(rs.Spec.Replicas)), int64(rs.Status.Replicas), int64(rs.Status.ReadyReplicas),
		column.Since(now, rs.CreationTimestamp.Time),
		names, images, column.Selector(rs.Spec.Selector),
	}
}

func deref(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}
