package plugin

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"howdah.dev/services/scheduler/internal/filter"
	"howdah.dev/services/scheduler/internal/score"
)

var spreadArgs = argsOf(func(a *configv1.PodTopologySpreadArgs) {
	if a.DefaultingType == "" {
		a.DefaultingType = configv1.SystemDefaulting
	}
}, checkSpread)

func spreadScore(a *configv1.PodTopologySpreadArgs) score.Score {
	return score.PodTopologySpread(a.DefaultConstraints, a.DefaultingType == configv1.SystemDefaulting)
}

func spreadFilter(a *configv1.PodTopologySpreadArgs) filter.Filter {
	return filter.PodTopologySpread(a.DefaultConstraints)
}

func checkSpread(path *field.Path, a *configv1.PodTopologySpreadArgs) field.ErrorList {
	var errs field.ErrorList
	switch kind := path.Child("defaultingType"); {
	case a.DefaultingType != configv1.SystemDefaulting && a.DefaultingType != configv1.ListDefaulting:
		errs = append(errs, field.NotSupported(kind, a.DefaultingType,
			[]configv1.PodTopologySpreadConstraintsDefaulting{configv1.SystemDefaulting, configv1.ListDefaulting}))
	case a.DefaultingType == configv1.SystemDefaulting && len(a.DefaultConstraints) > 0:
		errs = append(errs, field.Invalid(kind, a.DefaultingType, "when .defaultConstraints are not empty"))
	}
	seen := map[string]bool{}
	for i, c := range a.DefaultConstraints {
		path := path.Child("defaultConstraints").Index(i)
		errs = append(errs, checkConstraint(path, c)...)
		pair := fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)
		if seen[pair] {
			errs = append(errs, field.Duplicate(path, pair))
		}
		seen[pair] = true
	}
	return errs
}

// checkConstraint looks at a constraint that pods have by default.
func checkConstraint(path *field.Path, c corev1.TopologySpreadConstraint) field.ErrorList {
	var errs field.ErrorList
	if c.MaxSkew <= 0 {
		errs = append(errs, field.Invalid(path.Child("maxSkew"), c.MaxSkew, "not in valid range (0, inf)"))
	}
	if key := path.Child("topologyKey"); c.TopologyKey == "" {
		errs = append(errs, field.Required(key, "can not be empty"))
	} else {
		errs = append(errs, metavalidation.ValidateLabelName(c.TopologyKey, key)...)
	}
	switch when := path.Child("whenUnsatisfiable"); c.WhenUnsatisfiable {
	case corev1.ScheduleAnyway, corev1.DoNotSchedule:
	case "":
		errs = append(errs, field.Required(when, "can not be empty"))
	default:
		errs = append(errs, field.NotSupported(when, c.WhenUnsatisfiable, []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}))
	}
	if c.LabelSelector != nil {
		errs = append(errs, field.Forbidden(path.Child("labelSelector"), "constraint must not define a selector, as they deduced for each pod"))
	}
	switch minimum := path.Child("minDomains"); {
	case c.MinDomains == nil:
	case c.WhenUnsatisfiable != corev1.DoNotSchedule:
		errs = append(errs, field.Forbidden(minimum, "acts with DoNotSchedule alone"))
	case *c.MinDomains <= 0:
		errs = append(errs, field.Invalid(minimum, *c.MinDomains, "must be greater than 0"))
	}
	if len(c.MatchLabelKeys) > 0 {
		errs = append(errs, field.Forbidden(path.Child("matchLabelKeys"), "pods are selected by their Services and their controller"))
	}
	return errs
}

var neighbourArgs = argsOf(func(a *configv1.InterPodAffinityArgs) {
	setDefault(&a.HardPodAffinityWeight, 1)
}, func(path *field.Path, a *configv1.InterPodAffinityArgs) field.ErrorList {
	if w := *a.HardPodAffinityWeight; w < 0 || w > 100 {
		return field.ErrorList{field.Invalid(path.Child("hardPodAffinityWeight"), w, "not in valid range [0, 100]")}
	}
	return nil
})

func neighbourScore(a *configv1.InterPodAffinityArgs) score.Score {
	return score.InterPodAffinity(int64(*a.HardPodAffinityWeight), a.IgnorePreferredTermsOfExistingPods)
}
