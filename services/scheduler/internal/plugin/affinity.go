package plugin

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"howdah.dev/services/scheduler/internal/filter"
	"howdah.dev/services/scheduler/internal/score"
)

var affinityArgs = argsOf(func(*configv1.NodeAffinityArgs) {}, func(path *field.Path, a *configv1.NodeAffinityArgs) field.ErrorList {
	path = path.Child("addedAffinity")
	_, requiredErr := added(a.AddedAffinity, path)
	_, preferredErr := preferred(a.AddedAffinity, path)
	return append(fieldErrors(path, requiredErr), fieldErrors(path, preferredErr)...)
})

// added parses what is required of all pods' nodes, nil for nothing.
func added(a *corev1.NodeAffinity, path *field.Path) (*nodeaffinity.NodeSelector, error) {
	if a == nil || a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil, nil
	}
	return nodeaffinity.NewNodeSelector(a.RequiredDuringSchedulingIgnoredDuringExecution,
		field.WithPath(path.Child("requiredDuringSchedulingIgnoredDuringExecution")))
}

// preferred parses what is preferred for all pods, nil for nothing.
func preferred(a *corev1.NodeAffinity, path *field.Path) (*nodeaffinity.PreferredSchedulingTerms, error) {
	if a == nil || len(a.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		return nil, nil
	}
	return nodeaffinity.NewPreferredSchedulingTerms(a.PreferredDuringSchedulingIgnoredDuringExecution,
		field.WithPath(path.Child("preferredDuringSchedulingIgnoredDuringExecution")))
}

// fieldErrors takes the errors of fields apart that are told as one.
func fieldErrors(path *field.Path, err error) field.ErrorList {
	if err == nil {
		return nil
	}
	if one, ok := errors.AsType[*field.Error](err); ok && one.Error() == err.Error() {
		return field.ErrorList{one}
	}
	several, ok := errors.AsType[utilerrors.Aggregate](err)
	if !ok {
		return field.ErrorList{field.Invalid(path, nil, err.Error())}
	}
	var errs field.ErrorList
	for _, e := range several.Errors() {
		errs = append(errs, fieldErrors(path, e)...)
	}
	return errs
}

func affinityFilter(a *configv1.NodeAffinityArgs) filter.Filter {
	selector, _ := added(a.AddedAffinity, nil) // it was checked
	return filter.NodeAffinity(selector)
}

func affinityScore(a *configv1.NodeAffinityArgs) score.Score {
	terms, _ := preferred(a.AddedAffinity, nil) // they were checked
	return score.NodeAffinity(terms)
}
