// Package quota has the kinds that bound what a namespace uses: ResourceQuota and LimitRange.
package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

// Kind returns the kind ResourceQuota; now is the clock for ages.
func Kind(now func() time.Time) *registry.Kind {
	type quota = corev1.ResourceQuota
	k := row.Of[quota, corev1.ResourceQuotaList](corev1.SchemeGroupVersion, "resourcequotas")
	k.Namespaced, k.ShortNames = true, []string{"quota"}
	k.Default = typed.Do(func(q *quota) {
		podspec.RoundUp(q.Spec.Hard)
		podspec.RoundUp(q.Status.Hard)
		podspec.RoundUp(q.Status.Used)
	})
	k.PrepareCreate = typed.Do(func(q *quota) { q.Status = corev1.ResourceQuotaStatus{} })
	k.PrepareUpdate = typed.Change(func(q, old *quota) { q.Status = old.Status })
	row.Status(k, func(q *quota) *corev1.ResourceQuotaSpec { return &q.Spec }, func(q, _ *quota) field.ErrorList {
		path := field.NewPath("status")
		return append(validateList(q.Status.Hard, path.Child("hard")), validateList(q.Status.Used, path.Child("used"))...)
	})
	k.Validate = typed.Check(func(q *quota) field.ErrorList {
		path := field.NewPath("spec")
		errs := validateList(q.Spec.Hard, path.Child("hard"))
		return append(errs, validateScopes(&q.Spec, path)...)
	})
	k.ValidateUpdate = typed.CheckChange(func(q, old *quota) field.ErrorList {
		if sets.New(q.Spec.Scopes...).Equal(sets.New(old.Spec.Scopes...)) {
			return nil
		}
		return field.ErrorList{field.Invalid(field.NewPath("spec", "scopes"), q.Spec.Scopes, check.Immutable)}
	})
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(),
		column.String("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
		column.String("Limit", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."),
		column.Age(),
	}
	k.Cells = typed.Get(func(q *quota) []any {
		var requests, limits []string
		for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
			hard, used := q.Status.Hard[name], q.Status.Used[name]
			text := fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String())
			if strings.HasPrefix(string(name), "limits") {
				limits = append(limits, text)
			} else {
				requests = append(requests, text)
			}
		}
		return []any{q.Name, strings.Join(requests, ", "), strings.Join(limits, ", "), column.Since(now(), q.CreationTimestamp.Time)}
	})
	return k
}

// counted reports a resource of which there are whole numbers.
func counted(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets,
		corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
		return true
	}
	return strings.HasPrefix(string(name), "count/")
}

func standard(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
		corev1.ResourceRequestsStorage, corev1.ResourceRequestsEphemeralStorage, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
		corev1.ResourceLimitsEphemeralStorage:
		return true
	}
	return counted(name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

func validateList(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q, at := list[name], path.Key(string(name))
		errs = append(errs, podspec.ResourceName(name, at)...)
		if !strings.Contains(string(name), "/") && !standard(name) {
			errs = append(errs, field.Invalid(at, name, "must be a standard resource for quota"))
		}
		if q.Sign() < 0 {
			errs = append(errs, field.Invalid(at, q.String(), check.Negative))
		}
		if (counted(name) || podspec.Counted(name)) && q.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at, q.String(), "must be an integer"))
		}
	}
	return errs
}

// opposites are scopes that no object can have both.
func opposites() [][2]corev1.ResourceQuotaScope {
	return [][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	}
}

func known(s corev1.ResourceQuotaScope) bool {
	switch s {
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
		corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity,
		corev1.ResourceQuotaScopeVolumeAttributesClass:
		return true
	}
	return false
}

const misapplied = "unsupported scope applied to resource"

// unfit counts the resources of a quota that the objects of a scope do not use.
func unfit(scope corev1.ResourceQuotaScope, hard corev1.ResourceList) int {
	fit := func(name corev1.ResourceName) bool {
		switch scope {
		case corev1.ResourceQuotaScopeBestEffort:
			return name == corev1.ResourcePods
		case corev1.ResourceQuotaScopeVolumeAttributesClass:
			return name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage
		}
		switch name {
		case corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
			corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory:
			return true
		}
		return !known(scope)
	}
	n := 0
	for name := range hard {
		if standard(name) && !strings.Contains(string(name), "/") && !fit(name) {
			n++
		}
	}
	return n
}

func validateScopes(s *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("scopes")
	for _, scope := range s.Scopes {
		if !known(scope) {
			errs = append(errs, field.Invalid(at, s.Scopes, "unsupported scope"))
		}
		for range unfit(scope, s.Hard) {
			errs = append(errs, field.Invalid(at, s.Scopes, misapplied))
		}
	}
	for _, o := range opposites() {
		if slices.Contains(s.Scopes, o[0]) && slices.Contains(s.Scopes, o[1]) {
			errs = append(errs, field.Invalid(at, s.Scopes, "conflicting scopes"))
		}
	}
	if s.ScopeSelector == nil {
		return errs
	}
	at = path.Child("scopeSelector", "matchExpressions")
	for i := range s.ScopeSelector.MatchExpressions {
		r := &s.ScopeSelector.MatchExpressions[i]
		if !known(r.ScopeName) {
			errs = append(errs, field.Invalid(at.Child("scopeName"), r.ScopeName, "unsupported scope"))
		}
		for range unfit(r.ScopeName, s.Hard) {
			errs = append(errs, field.Invalid(at, s.ScopeSelector, misapplied))
		}
		if valueless(r.ScopeName) && r.Operator != corev1.ScopeSelectorOpExists {
			errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "+
				"ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"))
		}
		switch r.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(at.Child("values"), "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
			}
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
			if len(r.Values) != 0 {
				errs = append(errs, field.Invalid(at.Child("values"), r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"))
			}
		default:
			errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator"))
		}
	}
	return errs
}

// valueless reports whether a scope holds or does not, so that there are no values to compare.
func valueless(s corev1.ResourceQuotaScope) bool {
	return slices.Contains([]corev1.ResourceQuotaScope{
		corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
		corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeCrossNamespacePodAffinity,
	}, s)
}
