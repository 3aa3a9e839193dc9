package objects

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/registry"
)

var (
	componentGVK      = corev1.SchemeGroupVersion.WithKind("ComponentStatus")
	componentStatuses = corev1.SchemeGroupVersion.WithResource("componentstatuses")
)

// ComponentStatuses is the resource that tells how the cluster's parts are, which parts does.
func ComponentStatuses(parts func(ctx context.Context) []corev1.ComponentStatus) Made {
	return Made{
		Resource: &registry.Resource{
			Kind: &registry.Kind{
				GVK: componentGVK, Resource: "componentstatuses", Singular: "componentstatus", ShortNames: []string{"cs"}, Deprecated: "v1 ComponentStatus is deprecated in v1.19+",
				New:     func() registry.Object { return &corev1.ComponentStatus{} },
				NewList: func() runtime.Object { return &corev1.ComponentStatusList{} },
				Columns: componentColumns(), Cells: componentCells,
			},
			GVK: componentGVK, GVR: componentStatuses, ListKind: "ComponentStatusList",
		},
		Make: func(ctx context.Context, _, name string) ([]registry.Object, error) {
			var all []registry.Object
			for _, one := range parts(ctx) {
				if name == "" || name == one.Name {
					all = append(all, &one)
				}
			}
			if name != "" && len(all) == 0 {
				return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "componentstatus"}, name)
			}
			return all, nil
		},
	}
}

func componentColumns() []metav1.TableColumnDefinition {
	text := func(name, description string) metav1.TableColumnDefinition {
		return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
	}
	name := text("Name", metav1.ObjectMeta{}.SwaggerDoc()["name"])
	name.Format = "name"
	return []metav1.TableColumnDefinition{
		name, text("Status", "Status of the component conditions"), text("Message", "Message of the component conditions"), text("Error", "Error of the component conditions"),
	}
}

func componentCells(obj registry.Object) []any {
	c, ok := obj.(*corev1.ComponentStatus)
	if !ok {
		return []any{obj.GetName(), "Unknown", "", ""}
	}
	status, message, problem := "Unknown", "", ""
	for _, condition := range c.Conditions {
		if condition.Type != corev1.ComponentHealthy {
			continue
		}
		message, problem = condition.Message, condition.Error
		if status = "Unhealthy"; condition.Status == corev1.ConditionTrue {
			status = "Healthy"
		}
	}
	return []any{c.Name, status, message, problem}
}
