// Package deployment is the kind Deployment: stored as apps/v1, served as
// extensions/v1beta1, apps/v1beta1 and apps/v1beta2 too.
package deployment

import (
	"fmt"
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

var stored = appsv1.SchemeGroupVersion.WithKind("Deployment")

// Kind returns the kind; now is the clock for ages.
func Kind(now func() time.Time) *registry.Kind {
	k := &registry.Kind{
		GVK:      stored,
		Resource: "deployments", Singular: "deployment", ShortNames: []string{"deploy"}, Categories: []string{"all"},
		Namespaced: true,
		New:        func() registry.Object { return &appsv1.Deployment{} },
		NewList:    func() runtime.Object { return &appsv1.DeploymentList{} },
		Served:     []registry.Version{v1beta2Version(), v1beta1Version(), extensionsVersion()},

		Default: typed.Do(appsV1.fill),
		PrepareCreate: typed.Do(func(d *appsv1.Deployment) {
			d.Status = appsv1.DeploymentStatus{}
			d.Generation = 1
		}),
		// The rollout commands work through annotations, so these count as
		// changes of what is wanted too.
		PrepareUpdate: typed.Change(func(d, old *appsv1.Deployment) {
			d.Status = old.Status
			d.Generation = old.Generation
			if !equality.Semantic.DeepEqual(d.Spec, old.Spec) || !equality.Semantic.DeepEqual(d.Annotations, old.Annotations) {
				d.Generation++
			}
		}),
		Validate:       typed.Check(validate),
		ValidateUpdate: typed.CheckChange(validateUpdate),
		Warnings: typed.WarnOfSpec(func(d *appsv1.Deployment) []string {
			return podspec.TemplateWarnings(&d.Spec.Template)
		}),

		Status: &registry.Status{
			PrepareUpdate: typed.Change(func(d, old *appsv1.Deployment) {
				d.Spec, d.Labels, d.Generation = old.Spec, old.Labels, old.Generation
			}),
			ValidateUpdate: typed.CheckChange(validateStatusUpdate),
			Untracked:      []string{"metadata.labels"},
		},
		Scale: &registry.Scale{
			Get: func(obj registry.Object) (int32, int32, string) {
				d := obj.(*appsv1.Deployment)
				selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
				if err != nil {
					return deref(d.Spec.Replicas), d.Status.Replicas, ""
				}
				return deref(d.Spec.Replicas), d.Status.Replicas, selector.String()
			},
			Set: func(obj registry.Object, replicas int32) error {
				obj.(*appsv1.Deployment).Spec.Replicas = &replicas
				return nil
			},
		},

		Columns: columns,
		Blank:   func() registry.Object { return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32)}} },
		Cells:   typed.Get(func(d *appsv1.Deployment) []any { return cells(d, now()) }),
	}
	workload.Ratchet(k, func(d *appsv1.Deployment) *corev1.PodTemplateSpec { return &d.Spec.Template })
	workload.WarnOfNames(k)
	return k
}

var columns = []metav1.TableColumnDefinition{
	column.Name(),
	column.String("Ready", "Number of the pod with ready state"),
	column.String("Up-to-date", appsv1.DeploymentStatus{}.SwaggerDoc()["updatedReplicas"]),
	column.String("Available", appsv1.DeploymentStatus{}.SwaggerDoc()["availableReplicas"]),
	column.Age(),
	column.Wide(column.String("Containers", "Names of each container in the template.")),
	column.Wide(column.String("Images", "Images referenced by each container in the template.")),
	column.Wide(column.String("Selector", appsv1.DeploymentSpec{}.SwaggerDoc()["selector"])),
}

func cells(d *appsv1.Deployment, now time.Time) []any {
	names, images := column.Containers(d.Spec.Template.Spec.Containers)
	selector := "" // of a bookmark
	if d.Spec.Selector != nil {
		selector = column.Selector(d.Spec.Selector)
	}
	return []any{
		d.Name,
		fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, deref(d.Spec.Replicas)),
		int64(d.Status.UpdatedReplicas),
		int64(d.Status.AvailableReplicas),
		column.Since(now, d.CreationTimestamp.Time),
		names, images, selector,
	}
}

func deref(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}
