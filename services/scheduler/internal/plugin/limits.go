package plugin

import (
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/services/scheduler/internal/device"
	"howdah.dev/services/scheduler/internal/filter"
	"howdah.dev/services/scheduler/internal/preempt"
	"howdah.dev/services/scheduler/internal/score"
)

// The plugins that do more than to filter and to score, or of which others ask.
const (
	Preemption    = "DefaultPreemption"
	VolumeBinding = "VolumeBinding"
	Devices       = "DynamicResources"
	Spread        = "PodTopologySpread"
	Together      = "ServiceAffinity"
)

// VolumeTimeout bounds how long a pod waits on its node for its volumes to be bound where nothing else is said.
const VolumeTimeout = 10 * time.Minute

// MaxSeconds are the most that a time can have.
const MaxSeconds = int64(math.MaxInt64 / time.Second)

var preemptionArgs = argsOf(func(a *configv1.DefaultPreemptionArgs) {
	setDefault(&a.MinCandidateNodesPercentage, int32(preempt.Default.Percent))
	setDefault(&a.MinCandidateNodesAbsolute, int32(preempt.Default.Nodes))
}, func(path *field.Path, a *configv1.DefaultPreemptionArgs) field.ErrorList {
	var errs field.ErrorList
	percent, nodes := *a.MinCandidateNodesPercentage, *a.MinCandidateNodesAbsolute
	percentPath, nodesPath := path.Child("minCandidateNodesPercentage"), path.Child("minCandidateNodesAbsolute")
	if percent < 0 || percent > 100 {
		errs = append(errs, field.Invalid(percentPath, percent, "not in valid range [0, 100]"))
	}
	if nodes < 0 {
		errs = append(errs, field.Invalid(nodesPath, nodes, "not in valid range [0, inf)"))
	}
	if percent == 0 && nodes == 0 {
		errs = append(errs, field.Invalid(percentPath, percent, "cannot be zero at the same time as minCandidateNodesAbsolute"),
			field.Invalid(nodesPath, nodes, "cannot be zero at the same time as minCandidateNodesPercentage"))
	}
	return errs
})

var volumeArgs = argsOf(func(a *configv1.VolumeBindingArgs) {
	setDefault(&a.BindTimeoutSeconds, int64(VolumeTimeout/time.Second))
}, func(path *field.Path, a *configv1.VolumeBindingArgs) field.ErrorList {
	var errs field.ErrorList
	switch seconds := *a.BindTimeoutSeconds; {
	case seconds < 0:
		errs = append(errs, field.Invalid(path.Child("bindTimeoutSeconds"), seconds, "invalid BindTimeoutSeconds, should not be a negative value"))
	case seconds > MaxSeconds:
		errs = append(errs, field.Invalid(path.Child("bindTimeoutSeconds"), seconds, TooLong))
	}
	if a.Shape != nil {
		errs = append(errs, field.Invalid(path.Child("shape"), a.Shape, "unexpected field `shape`, remove it: nodes are not scored by the capacity of volumes (StorageCapacityScoring)"))
	}
	return errs
})

// TooLong refuses what is more than MaxSeconds.
const TooLong = "must be at most 9223372036 seconds"

var deviceArgs = argsOf(func(a *configv1.DynamicResourcesArgs) {
	setDefault(&a.FilterTimeout, metav1.Duration{Duration: device.Patience})
	setDefault(&a.BindingTimeout, metav1.Duration{Duration: device.Timeout})
}, func(path *field.Path, a *configv1.DynamicResourcesArgs) field.ErrorList {
	var errs field.ErrorList
	if a.FilterTimeout.Duration < 0 {
		errs = append(errs, field.Invalid(path.Child("filterTimeout"), a.FilterTimeout, "must be zero or positive"))
	}
	if a.BindingTimeout.Duration < time.Second {
		errs = append(errs, field.Invalid(path.Child("bindingTimeout"), a.BindingTimeout, "must be at least 1 second"))
	}
	return errs
})

func deviceFilter(a *configv1.DynamicResourcesArgs) filter.Filter {
	return filter.DynamicResources(a.FilterTimeout.Duration)
}

func deviceScore(a *configv1.DynamicResourcesArgs) score.Score {
	return score.DynamicResources(a.FilterTimeout.Duration)
}

// setDefault sets what is not set.
func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = ptr.To(value)
	}
}
