package kind

import (
	"time"

	policyv1 "k8s.io/api/policy/v1"
	pathvalidation "k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/kind/workload"
	"howdah.dev/services/apiserver/internal/registry"
)

func disruptionBudget(now func() time.Time) *registry.Kind {
	type budget = policyv1.PodDisruptionBudget
	k := row.Of[budget, policyv1.PodDisruptionBudgetList](policyv1.SchemeGroupVersion, "poddisruptionbudgets")
	k.Namespaced, k.ShortNames = true, []string{"pdb"}
	row.SpecStatus(k, func(b *budget) *policyv1.PodDisruptionBudgetSpec { return &b.Spec },
		func(b *budget) *policyv1.PodDisruptionBudgetStatus { return &b.Status }, validateBudgetStatus)
	k.NeedsRevision = true
	k.NameIsValid, k.MetaIsFree = pathvalidation.ValidatePathSegmentName, true
	typed.Ratchet(k, validateBudget)
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(),
		column.String("Min Available", "The minimum number of pods that must be available."),
		column.String("Max Unavailable", "The maximum number of pods that may be unavailable."),
		column.Integer("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."),
		column.Age(),
	}
	k.Cells = typed.Get(func(b *budget) []any {
		return []any{
			b.Name, orNotApplicable(b.Spec.MinAvailable), orNotApplicable(b.Spec.MaxUnavailable),
			int64(b.Status.DisruptionsAllowed), column.Since(now(), b.CreationTimestamp.Time),
		}
	})
	return k
}

func orNotApplicable(v *intstr.IntOrString) string {
	if v == nil {
		return "N/A"
	}
	return v.String()
}

func validateBudget(b, old *policyv1.PodDisruptionBudget) field.ErrorList {
	var selector metavalidation.LabelSelectorValidationOptions
	if old != nil {
		selector = check.Selectors(old.Spec.Selector)
	}
	spec, path := &b.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(path, *spec, "minAvailable and maxUnavailable cannot be both set"))
	}
	errs = append(errs, budgetPortion(spec.MinAvailable, path.Child("minAvailable"))...)
	errs = append(errs, budgetPortion(spec.MaxUnavailable, path.Child("maxUnavailable"))...)
	errs = append(errs, metavalidation.ValidateLabelSelector(spec.Selector, selector, path.Child("selector"))...)
	if p := spec.UnhealthyPodEvictionPolicy; p != nil {
		errs = append(errs, check.OneOf(*p, path.Child("unhealthyPodEvictionPolicy"), policyv1.IfHealthyBudget, policyv1.AlwaysAllow)...)
	}
	return errs
}

// budgetPortion is workload.Portion with a text that only budgets have.
func budgetPortion(v *intstr.IntOrString, path *field.Path) field.ErrorList {
	if v != nil && v.Type == intstr.String {
		if errs := check.Each(validation.IsValidPercent(v.StrVal), *v, path); len(errs) > 0 {
			return errs
		}
	}
	return workload.Portion(v, path)
}

func validateBudgetStatus(b, _ *policyv1.PodDisruptionBudget) field.ErrorList {
	s, path := &b.Status, field.NewPath("status")
	errs := metavalidation.ValidateConditions(s.Conditions, path.Child("conditions"))
	return append(errs, workload.Counts(path,
		workload.Count{Name: "disruptionsAllowed", N: s.DisruptionsAllowed},
		workload.Count{Name: "currentHealthy", N: s.CurrentHealthy},
		workload.Count{Name: "desiredHealthy", N: s.DesiredHealthy},
		workload.Count{Name: "expectedPods", N: s.ExpectedPods})...)
}
