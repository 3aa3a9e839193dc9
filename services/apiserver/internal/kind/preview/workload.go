package preview

import (
	"context"
	"time"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/kind/unversioned"
	"howdah.dev/services/apiserver/internal/registry"
)

type load = schedulingv1alpha2.Workload

// workload says how the pods of something are to be scheduled together.
func workload(now func() time.Time) *registry.Kind {
	k := row.Of[load, schedulingv1alpha2.WorkloadList](schedulingv1alpha2.SchemeGroupVersion, "workloads")
	k.Namespaced, k.Feature = true, featureWorkload
	k.PrepareCreate = typed.Do(dropTemplates)
	k.PrepareUpdate = typed.Change(func(w, _ *load) { dropTemplates(w) })
	k.ValidateCreate = typed.Check(validateWorkload)
	k.ValidateUpdate = typed.CheckChange(func(w, old *load) field.ErrorList {
		path := field.NewPath("spec")
		errs := unchanged(w.Spec.ControllerRef, old.Spec.ControllerRef, path.Child("controllerRef"))
		errs = append(errs, unchanged(w.Spec.PodGroupTemplates, old.Spec.PodGroupTemplates, path.Child("podGroupTemplates"))...)
		return append(errs, validateNumber(w.Spec.PodGroupTemplates, path.Child("podGroupTemplates"))...)
	})
	k.Columns = []metav1.TableColumnDefinition{column.Name(), column.Age()}
	k.Cells = typed.Get(func(w *load) []any { return []any{w.Name, column.Since(now(), w.CreationTimestamp.Time)} })
	return k
}

// dropTemplates forgets what takes feature gates that are off: TopologyAwareWorkloadScheduling, DRAWorkloadResourceClaims and
// WorkloadAwarePreemption.
func dropTemplates(w *load) {
	for i := range w.Spec.PodGroupTemplates {
		t := &w.Spec.PodGroupTemplates[i]
		t.SchedulingConstraints, t.ResourceClaims, t.DisruptionMode, t.PriorityClassName, t.Priority = nil, nil, nil, "", nil
	}
}

// unchanged refuses any change, as Kubernetes' declarative validation tells it.
func unchanged[T any](value, old T, path *field.Path) field.ErrorList {
	if equality.Semantic.DeepEqual(value, old) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, nil, "field is immutable")}
}

// creating is what the declarative checks are of.
var creating = operation.Operation{Type: operation.Create}

func validateWorkload(w *load) field.ErrorList {
	ctx, path := context.Background(), field.NewPath("spec")
	var errs field.ErrorList
	if r := w.Spec.ControllerRef; r != nil {
		at := path.Child("controllerRef")
		if r.APIGroup != "" {
			errs = append(errs, validate.LongName(ctx, creating, at.Child("apiGroup"), &r.APIGroup, nil)...)
		}
		errs = append(errs, wanted(at.Child("kind"), &r.Kind, validate.PathSegmentName)...)
		errs = append(errs, wanted(at.Child("name"), &r.Name, validate.PathSegmentName)...)
	}
	at, templates := path.Child("podGroupTemplates"), w.Spec.PodGroupTemplates
	if wrong := validateNumber(templates, at); len(wrong) > 0 {
		return append(errs, wrong...)
	}
	seen := map[string]bool{}
	for i := range templates {
		if t := &templates[i]; seen[t.Name] {
			errs = append(errs, field.Duplicate(at.Index(i), unversioned.Tagged{Value: t}))
		}
		seen[templates[i].Name] = true
	}
	for i := range templates {
		t, p := &templates[i], at.Index(i)
		errs = append(errs, wanted(p.Child("name"), &t.Name, validate.ShortName)...)
		errs = append(errs, validatePolicy(&t.SchedulingPolicy, p.Child("schedulingPolicy"))...)
	}
	return errs
}

// validateNumber wants some templates, and not too many.
func validateNumber(templates []schedulingv1alpha2.PodGroupTemplate, path *field.Path) field.ErrorList {
	if len(templates) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	return validate.MaxItems(context.Background(), creating, path, templates, nil, schedulingv1alpha2.WorkloadMaxPodGroupTemplates)
}

// wanted is a check of a text that must be there.
func wanted(path *field.Path, text *string, check func(context.Context, operation.Operation, *field.Path, *string, *string) field.ErrorList) field.ErrorList {
	if *text == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return check(context.Background(), creating, path, text, nil)
}

// validatePolicy wants one of the policies.
func validatePolicy(p *schedulingv1alpha2.PodGroupSchedulingPolicy, path *field.Path) field.ErrorList {
	ctx := context.Background()
	errs := validate.Union(ctx, creating, path, p, nil, validate.NewUnionMembership(validate.NewUnionMember("basic"), validate.NewUnionMember("gang")),
		func(p *schedulingv1alpha2.PodGroupSchedulingPolicy) bool { return p != nil && p.Basic != nil },
		func(p *schedulingv1alpha2.PodGroupSchedulingPolicy) bool { return p != nil && p.Gang != nil })
	if p.Gang == nil {
		return errs
	}
	at := path.Child("gang", "minCount")
	if p.Gang.MinCount == 0 {
		return append(errs, field.Required(at, ""))
	}
	return append(errs, validate.Minimum(ctx, creating, at, &p.Gang.MinCount, nil, 1)...)
}
