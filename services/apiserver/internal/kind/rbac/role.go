// Package rbac has the kinds of rbac.authorization.k8s.io: Role, ClusterRole
// and their bindings.
package rbac

import (
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	namepath "k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

// Kinds returns the kinds of the group; now is the clock for ages.
func Kinds(now func() time.Time) []*registry.Kind {
	return []*registry.Kind{role(), roleBinding(now), clusterRole(), clusterRoleBinding(now)}
}

// Names of roles may have colons and capitals, as "system:masters" has: they
// only have to fit into a URL.
func named(k *registry.Kind) *registry.Kind {
	k.NameIsValid, k.CreateOnUpdate = namepath.ValidatePathSegmentName, true
	return k
}

func role() *registry.Kind {
	k := named(row.Of[rbacv1.Role, rbacv1.RoleList](rbacv1.SchemeGroupVersion, "roles"))
	k.Namespaced = true
	k.Validate = typed.Check(func(r *rbacv1.Role) field.ErrorList { return validateRules(r.Rules, true) })
	return k
}

func clusterRole() *registry.Kind {
	k := named(row.Of[rbacv1.ClusterRole, rbacv1.ClusterRoleList](rbacv1.SchemeGroupVersion, "clusterroles"))
	k.Validate = typed.Check(func(r *rbacv1.ClusterRole) field.ErrorList {
		return append(validateRules(r.Rules, false), validateAggregation(r.AggregationRule)...)
	})
	return k
}

func validateRules(rules []rbacv1.PolicyRule, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	for i := range rules {
		errs = append(errs, validateRule(&rules[i], namespaced, field.NewPath("rules").Index(i))...)
	}
	return errs
}

func validateRule(r *rbacv1.PolicyRule, namespaced bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.Verbs) == 0 {
		errs = append(errs, field.Required(path.Child("verbs"), "verbs must contain at least one value"))
	}
	if len(r.NonResourceURLs) > 0 {
		at := path.Child("nonResourceURLs")
		if namespaced {
			errs = append(errs, field.Invalid(at, r.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
		}
		if len(r.APIGroups)+len(r.Resources)+len(r.ResourceNames) > 0 {
			errs = append(errs, field.Invalid(at, r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
		}
		return errs
	}
	if len(r.APIGroups) == 0 {
		errs = append(errs, field.Required(path.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	if len(r.Resources) == 0 {
		errs = append(errs, field.Required(path.Child("resources"), "resource rules must supply at least one resource"))
	}
	return errs
}

func validateAggregation(a *rbacv1.AggregationRule) field.ErrorList {
	if a == nil {
		return nil
	}
	path := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(a.ClusterRoleSelectors) == 0 {
		return field.ErrorList{field.Required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")}
	}
	var errs field.ErrorList
	for i := range a.ClusterRoleSelectors {
		s, at := &a.ClusterRoleSelectors[i], path.Index(i)
		errs = append(errs, metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, at)...)
		if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
			errs = append(errs, field.Invalid(at, nil, "invalid label selector."))
		}
	}
	return errs
}
