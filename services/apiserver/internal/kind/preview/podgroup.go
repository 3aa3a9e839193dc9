package preview

import (
	"context"
	"time"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

type podSet = schedulingv1alpha2.PodGroup

// podGroup is a set of pods that are scheduled together.
func podGroup(now func() time.Time) *registry.Kind {
	k := row.Of[podSet, schedulingv1alpha2.PodGroupList](schedulingv1alpha2.SchemeGroupVersion, "podgroups")
	k.Namespaced, k.TracksStatus, k.Feature = true, true, featureWorkload
	row.SpecStatusUncounted(k, func(g *podSet) *schedulingv1alpha2.PodGroupSpec { return &g.Spec },
		func(g *podSet) *schedulingv1alpha2.PodGroupStatus { return &g.Status }, func(g, _ *podSet) field.ErrorList {
			return metavalidation.ValidateConditions(g.Status.Conditions, field.NewPath("status", "conditions"))
		})
	row.KeepMeta(k)
	k.Default = typed.Do(func(g *podSet) { row.Set(&g.Spec.DisruptionMode, schedulingv1alpha2.DisruptionModePod) })
	reset, keep, status := k.PrepareCreate, k.PrepareUpdate, k.Status.PrepareUpdate
	k.PrepareCreate = func(obj registry.Object) {
		reset(obj)
		dropGroup(obj.(*podSet))
		pod := schedulingv1alpha2.DisruptionModePod
		obj.(*podSet).Spec.DisruptionMode = &pod
	}
	k.PrepareUpdate = func(obj, old registry.Object) {
		keep(obj, old)
		dropGroup(obj.(*podSet))
	}
	k.Status.PrepareUpdate = func(obj, old registry.Object) {
		status(obj, old)
		obj.(*podSet).Status.ResourceClaimStatuses = nil
	}
	k.ValidateCreate = typed.Check(validatePodGroup)
	k.ValidateUpdate = typed.CheckChange(validatePodGroupUpdate)
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("Policy", schedulingv1alpha2.PodGroupSpec{}.SwaggerDoc()["schedulingPolicy"]),
		column.String("Workload", "Name of the referenced Workload object"), column.String("Status", "Status of the PodGroup"), column.Age(),
	}
	k.Cells = typed.Get(func(g *podSet) []any {
		policy, of := "Basic", ""
		if g.Spec.SchedulingPolicy.Gang != nil {
			policy = "Gang"
		}
		if r := g.Spec.PodGroupTemplateRef; r != nil && r.Workload != nil {
			of = r.Workload.WorkloadName
		}
		return []any{g.Name, policy, column.Or(of, column.None), standing(g.Status.Conditions), column.Since(now(), g.CreationTimestamp.Time)}
	})
	return k
}

// dropGroup forgets what takes feature gates that are off: TopologyAwareWorkloadScheduling, DRAWorkloadResourceClaims and
// WorkloadAwarePreemption. The mode of disruption, which has a default, stays.
func dropGroup(g *podSet) {
	s := &g.Spec
	s.SchedulingConstraints, s.ResourceClaims, s.PriorityClassName, s.Priority = nil, nil, "", nil
}

// standing is what the table tells of a group.
func standing(conditions []metav1.Condition) string {
	if c := meta.FindStatusCondition(conditions, schedulingv1alpha2.DisruptionTarget); c != nil {
		return c.Reason
	}
	switch c := meta.FindStatusCondition(conditions, schedulingv1alpha2.PodGroupScheduled); {
	case c == nil:
		return "Pending"
	case c.Status == metav1.ConditionTrue:
		return "Scheduled"
	}
	return "Unschedulable"
}

func validatePodGroup(g *podSet) field.ErrorList {
	ctx, path := context.Background(), field.NewPath("spec")
	var errs field.ErrorList
	if r := g.Spec.PodGroupTemplateRef; r != nil {
		at := path.Child("podGroupTemplateRef")
		errs = append(errs, validate.Union(ctx, creating, at, r, nil, validate.NewUnionMembership(validate.NewUnionMember("workload")),
			func(r *schedulingv1alpha2.PodGroupTemplateReference) bool { return r != nil && r.Workload != nil })...)
		if w := r.Workload; w != nil {
			at = at.Child("workload")
			errs = append(errs, wanted(at.Child("workloadName"), &w.WorkloadName, validate.LongName)...)
			errs = append(errs, wanted(at.Child("podGroupTemplateName"), &w.PodGroupTemplateName, validate.ShortName)...)
		}
	}
	return append(errs, validatePolicy(&g.Spec.SchedulingPolicy, path.Child("schedulingPolicy"))...)
}

func validatePodGroupUpdate(g, old *podSet) field.ErrorList {
	path := field.NewPath("spec")
	errs := unchanged(g.Spec.PodGroupTemplateRef, old.Spec.PodGroupTemplateRef, path.Child("podGroupTemplateRef"))
	errs = append(errs, unchanged(g.Spec.SchedulingPolicy, old.Spec.SchedulingPolicy, path.Child("schedulingPolicy"))...)
	if row.Deref(g.Spec.DisruptionMode) != row.Deref(old.Spec.DisruptionMode) {
		errs = append(errs, field.Forbidden(path.Child("disruptionMode"), "")) // its feature gate is off
	}
	return errs
}
