package plugin

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"howdah.dev/services/scheduler/internal/filter"
	"howdah.dev/services/scheduler/internal/score"
)

var fitArgs = argsOf(completeFit, checkFit)

func completeFit(a *configv1.NodeResourcesFitArgs) {
	if a.ScoringStrategy == nil {
		a.ScoringStrategy = &configv1.ScoringStrategy{Type: configv1.LeastAllocated}
	}
	completeResources(&a.ScoringStrategy.Resources)
}

// completeResources has CPU and memory count where nothing is said, and what has no weight with 1.
func completeResources(resources *[]configv1.ResourceSpec) {
	if len(*resources) == 0 {
		*resources = []configv1.ResourceSpec{{Name: string(corev1.ResourceCPU)}, {Name: string(corev1.ResourceMemory)}}
	}
	for i := range *resources {
		if r := &(*resources)[i]; r.Weight == 0 {
			r.Weight = 1
		}
	}
}

// strategies make the scores of NodeResourcesFit.
var strategies = map[configv1.ScoringStrategyType]func(*configv1.ScoringStrategy) score.Score{
	configv1.LeastAllocated: func(s *configv1.ScoringStrategy) score.Score { return score.LeastAllocated(resourcesOf(s.Resources)) },
	configv1.MostAllocated:  func(s *configv1.ScoringStrategy) score.Score { return score.MostAllocated(resourcesOf(s.Resources)) },
	configv1.RequestedToCapacityRatio: func(s *configv1.ScoringStrategy) score.Score {
		return score.RequestedToCapacityRatio(resourcesOf(s.Resources), shapeOf(s.RequestedToCapacityRatio.Shape))
	},
}

func fitScore(a *configv1.NodeResourcesFitArgs) score.Score {
	return strategies[a.ScoringStrategy.Type](a.ScoringStrategy)
}

func fitFilter(a *configv1.NodeResourcesFitArgs) filter.Filter {
	if len(a.IgnoredResources)+len(a.IgnoredResourceGroups) == 0 {
		return filter.NodeResourcesFit(nil)
	}
	return filter.NodeResourcesFit(func(name corev1.ResourceName) bool {
		group, _, _ := strings.Cut(string(name), "/")
		return slices.Contains(a.IgnoredResources, string(name)) || slices.Contains(a.IgnoredResourceGroups, group)
	})
}

var balancedArgs = argsOf(
	func(a *configv1.NodeResourcesBalancedAllocationArgs) { completeResources(&a.Resources) },
	func(path *field.Path, a *configv1.NodeResourcesBalancedAllocationArgs) field.ErrorList {
		path = path.Child("resources")
		errs := checkNames(path, a.Resources)
		for i, r := range a.Resources {
			if r.Weight != 1 {
				errs = append(errs, field.Invalid(path.Index(i).Child("weight"), r.Weight, "must be 1"))
			}
		}
		return errs
	})

func balancedScore(a *configv1.NodeResourcesBalancedAllocationArgs) score.Score {
	return score.BalancedAllocation(resourcesOf(a.Resources))
}

func resourcesOf(specs []configv1.ResourceSpec) []score.Resource {
	resources := make([]score.Resource, 0, len(specs))
	for _, s := range specs {
		resources = append(resources, score.Resource{Name: corev1.ResourceName(s.Name), Weight: s.Weight})
	}
	return resources
}

// bestScore is the best one in a shape.
const bestScore = 10

// shapeOf scales a shape to the ratings of scores.
func shapeOf(points []configv1.UtilizationShapePoint) []score.Point {
	shape := make([]score.Point, 0, len(points))
	for _, p := range points {
		shape = append(shape, score.Point{Utilization: int64(p.Utilization), Score: int64(p.Score) * score.Max / bestScore})
	}
	return shape
}

func checkFit(path *field.Path, a *configv1.NodeResourcesFitArgs) field.ErrorList {
	var errs field.ErrorList
	for i, name := range a.IgnoredResources {
		path := path.Child("ignoredResources").Index(i)
		errs = append(errs, metavalidation.ValidateLabelName(name, path)...)
		if !extended(name) {
			errs = append(errs, field.Invalid(path, name, "only extended resources can be ignored"))
		}
	}
	for i, group := range a.IgnoredResourceGroups {
		path := path.Child("ignoredResourceGroups").Index(i)
		if strings.Contains(group, "/") {
			errs = append(errs, field.Invalid(path, group, "resource group name can't contain '/'"))
		}
		errs = append(errs, metavalidation.ValidateLabelName(group, path)...)
	}
	return append(errs, checkStrategy(path.Child("scoringStrategy"), a.ScoringStrategy)...)
}

func checkStrategy(path *field.Path, s *configv1.ScoringStrategy) field.ErrorList {
	var errs field.ErrorList
	if strategies[s.Type] == nil {
		errs = append(errs, field.NotSupported(path.Child("type"), s.Type,
			[]configv1.ScoringStrategyType{configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio}))
	}
	resources := path.Child("resources")
	errs = append(errs, checkNames(resources, s.Resources)...)
	for i, r := range s.Resources {
		if r.Weight < 1 || r.Weight > 100 {
			errs = append(errs, field.Invalid(resources.Index(i).Child("weight"), r.Weight, fmt.Sprintf("resource weight of %v not in valid range (0, 100]", r.Name)))
		}
	}
	ratio := path.Child("requestedToCapacityRatio")
	switch {
	case s.Type != configv1.RequestedToCapacityRatio:
		if s.RequestedToCapacityRatio != nil {
			errs = append(errs, field.Forbidden(ratio, "must be nil when type is not RequestedToCapacityRatio"))
		}
	case s.RequestedToCapacityRatio == nil:
		errs = append(errs, field.Required(ratio, "must be specified when type is RequestedToCapacityRatio"))
	default:
		errs = append(errs, checkShape(ratio.Child("shape"), s.RequestedToCapacityRatio.Shape)...)
	}
	return errs
}

// checkNames refuses resources that are named twice, and those that nodes do not count.
func checkNames(path *field.Path, resources []configv1.ResourceSpec) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, r := range resources {
		path := path.Index(i).Child("name")
		switch {
		case seen[r.Name]:
			errs = append(errs, field.Duplicate(path, r.Name))
		case !extended(r.Name) && !slices.Contains(own, corev1.ResourceName(r.Name)):
			errs = append(errs, field.Invalid(path, r.Name, "must be cpu, memory, ephemeral-storage or an extended resource"))
		}
		seen[r.Name] = true
	}
	return errs
}

// own are the resources that every node has.
var own = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// extended reports whether a resource is one of those that some nodes have.
func extended(name string) bool {
	return strings.Contains(name, "/") || strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
}

func checkShape(path *field.Path, shape []configv1.UtilizationShapePoint) field.ErrorList {
	if len(shape) == 0 {
		return field.ErrorList{field.Required(path, "at least one point must be specified")}
	}
	var errs field.ErrorList
	for i := 1; i < len(shape); i++ {
		if shape[i].Utilization <= shape[i-1].Utilization {
			errs = append(errs, field.Invalid(path.Index(i).Child("utilization"), shape[i].Utilization, "values must be sorted in increasing order"))
			break
		}
	}
	for i, p := range shape {
		if p.Utilization < 0 || p.Utilization > 100 {
			errs = append(errs, field.Invalid(path.Index(i).Child("utilization"), p.Utilization, "not in valid range [0, 100]"))
		}
		if p.Score < 0 || p.Score > bestScore {
			errs = append(errs, field.Invalid(path.Index(i).Child("score"), p.Score, "not in valid range [0, 10]"))
		}
	}
	return errs
}
