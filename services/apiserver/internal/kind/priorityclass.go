package kind

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

// The two classes that the system has, and may have above the users' range.
var systemPriorities = map[string]int32{
	"system-cluster-critical": 2000000000,
	"system-node-critical":    2000001000,
}

const highestUserPriority = 1000000000

func priorityClass(now func() time.Time) *registry.Kind {
	return &registry.Kind{
		GVK:      schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"),
		Resource: "priorityclasses", Singular: "priorityclass", ShortNames: []string{"pc"},
		New:     func() registry.Object { return &schedulingv1.PriorityClass{} },
		NewList: func() runtime.Object { return &schedulingv1.PriorityClassList{} },

		Default: typed.Do(func(p *schedulingv1.PriorityClass) {
			if p.PreemptionPolicy == nil {
				policy := corev1.PreemptLowerPriority
				p.PreemptionPolicy = &policy
			}
		}),
		PrepareCreate:  typed.Do(func(p *schedulingv1.PriorityClass) { p.Generation = 1 }),
		Validate:       typed.Check(validatePriorityClass),
		ValidateUpdate: typed.CheckChange(validatePriorityClassUpdate),

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Integer("Value", "Value of this priority class"),
			column.Boolean("Global-Default", schedulingv1.PriorityClass{}.SwaggerDoc()["globalDefault"]),
			column.Age(),
			column.String("PreemptionPolicy", schedulingv1.PriorityClass{}.SwaggerDoc()["preemptionPolicy"]),
		},
		Cells: typed.Get(func(p *schedulingv1.PriorityClass) []any {
			policy := ""
			if p.PreemptionPolicy != nil {
				policy = string(*p.PreemptionPolicy)
			}
			return []any{p.Name, int64(p.Value), p.GlobalDefault, column.Since(now(), p.CreationTimestamp.Time), policy}
		}),
	}
}

func validatePriorityClass(p *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if len(p.Name) >= 7 && p.Name[:7] == "system-" {
		if want, ok := systemPriorities[p.Name]; !ok || p.Value != want || p.GlobalDefault {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
				"priority class names with 'system-' prefix are reserved for system use only. error: "+
					fmt.Sprintf("%v is not a known system priority class", p.Name)))
		}
	} else if p.Value > highestUserPriority {
		errs = append(errs, field.Forbidden(field.NewPath("value"),
			fmt.Sprintf("maximum allowed value of a user defined priority is %v", highestUserPriority)))
	}
	if p.PreemptionPolicy != nil {
		errs = append(errs, check.Choice(*p.PreemptionPolicy, field.NewPath("preemptionPolicy"),
			corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	return errs
}

func validatePriorityClassUpdate(p, old *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if p.Value != old.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	return append(errs, check.Same(p.PreemptionPolicy, old.PreemptionPolicy, field.NewPath("preemptionPolicy"))...)
}
