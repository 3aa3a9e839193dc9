package kind

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
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
		PrepareUpdate:  typed.Change(func(p, old *schedulingv1.PriorityClass) { p.Generation = old.Generation }),
		ValidateCreate: typed.Check(validatePriorityClass), // what an update may change cannot be wrong
		ValidateUpdate: typed.CheckChange(validatePriorityClassUpdate),
		Kept: func(name string) string {
			if _, ok := systemPriorities[name]; ok {
				return "this is a system priority class and cannot be deleted"
			}
			return ""
		},

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Integer("Value", schedulingv1.PriorityClass{}.SwaggerDoc()["value"]),
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
	if strings.HasPrefix(p.Name, "system-") {
		if problem := systemProblem(p); problem != "" {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
				"priority class names with 'system-' prefix are reserved for system use only. error: "+problem))
		}
	} else if p.Value > highestUserPriority {
		errs = append(errs, field.Forbidden(field.NewPath("value"),
			fmt.Sprintf("maximum allowed value of a user defined priority is %v", highestUserPriority)))
	}
	if p.PreemptionPolicy != nil {
		errs = append(errs, preemptionPolicy(*p.PreemptionPolicy)...)
	}
	return errs
}

// systemProblem says why a class is not the one that the system has by this name.
func systemProblem(p *schedulingv1.PriorityClass) string {
	want, ok := systemPriorities[p.Name]
	switch {
	case !ok:
		return p.Name + " is not a known system priority class"
	case p.Value != want:
		return fmt.Sprintf("value of %s PriorityClass must be %d", p.Name, want)
	case p.GlobalDefault:
		return fmt.Sprintf("globalDefault of %s PriorityClass must be false", p.Name)
	}
	return ""
}

func preemptionPolicy(policy corev1.PreemptionPolicy) field.ErrorList {
	path := field.NewPath("preemptionPolicy")
	if policy == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return check.Supported(policy, path, corev1.PreemptLowerPriority, corev1.PreemptNever)
}

func validatePriorityClassUpdate(p, old *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if p.Value != old.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	return append(errs, check.Same(p.PreemptionPolicy, old.PreemptionPolicy, field.NewPath("preemptionPolicy"))...)
}
