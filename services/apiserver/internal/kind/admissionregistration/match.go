package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	namepath "k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/row"
)

const all = "*"

func defaultMatch(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	row.Set(&m.MatchPolicy, admissionv1.Equivalent)
	row.Set(&m.NamespaceSelector, metav1.LabelSelector{})
	row.Set(&m.ObjectSelector, metav1.LabelSelector{})
	for i := range m.ResourceRules {
		row.Set(&m.ResourceRules[i].Scope, admissionv1.AllScopes)
	}
	for i := range m.ExcludeResourceRules {
		row.Set(&m.ExcludeResourceRules[i].Scope, admissionv1.AllScopes)
	}
}

func validateMatch(m *admissionv1.MatchResources, path *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	errs := check.OneOf(row.Deref(m.MatchPolicy), path.Child("matchPolicy"), admissionv1.Exact, admissionv1.Equivalent)
	errs = append(errs, requireSelector(m.NamespaceSelector, path.Child("namespaceSelector"))...)
	errs = append(errs, requireSelector(m.ObjectSelector, path.Child("objectSelector"))...)
	for i := range m.ResourceRules {
		errs = append(errs, validateNamedRule(&m.ResourceRules[i], path.Child("resourceRules").Index(i))...)
	}
	for i := range m.ExcludeResourceRules {
		errs = append(errs, validateNamedRule(&m.ExcludeResourceRules[i], path.Child("excludeResourceRules").Index(i))...)
	}
	return errs
}

func requireSelector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if s == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	return validateSelector(s, path)
}

func validateSelector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return validateOldSelector(s, false, path)
}

// validateOldSelector lets values pass that are no labels' where older versions took such.
func validateOldSelector(s *metav1.LabelSelector, anyValue bool, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	return metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: anyValue}, path)
}

func validateNamedRule(r *admissionv1.NamedRuleWithOperations, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range r.ResourceNames {
		at := path.Child("resourceNames").Index(i)
		errs = append(errs, check.Each(namepath.ValidatePathSegmentName(name, false), name, at)...)
		if slices.Contains(r.ResourceNames[:i], name) {
			errs = append(errs, field.Duplicate(at, name))
		}
	}
	return append(errs, validateRule(&r.RuleWithOperations, path)...)
}

var operations = []admissionv1.OperationType{
	admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Delete, admissionv1.Update,
}

func validateRule(r *admissionv1.RuleWithOperations, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("operations")
	if len(r.Operations) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	if len(r.Operations) > 1 && slices.Contains(r.Operations, admissionv1.OperationAll) {
		errs = append(errs, field.Invalid(at, r.Operations, "if '*' is present, must not specify other operations"))
	}
	for i, o := range r.Operations {
		if !slices.Contains(operations, o) {
			errs = append(errs, field.NotSupported(at.Index(i), o, operations))
		}
	}
	errs = append(errs, alone(r.APIGroups, path.Child("apiGroups"), "API groups")...)
	errs = append(errs, alone(r.APIVersions, path.Child("apiVersions"), "API versions")...)
	for i, v := range r.APIVersions {
		if v == "" {
			errs = append(errs, field.Required(path.Child("apiVersions").Index(i), ""))
		}
	}
	errs = append(errs, validateResources(r.Resources, path.Child("resources"))...)
	if r.Scope != nil {
		scopes := []admissionv1.ScopeType{admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope}
		errs = append(errs, check.OneOf(*r.Scope, path.Child("scope"), scopes...)...)
	}
	return errs
}

// alone refuses an empty list, and a wildcard beside other values.
func alone(values []string, path *field.Path, what string) field.ErrorList {
	if len(values) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	if len(values) > 1 && slices.Contains(values, all) {
		return field.ErrorList{field.Invalid(path, values, "if '*' is present, must not specify other "+what)}
	}
	return nil
}

// validateResources refuses values that others of the list include.
func validateResources(resources []string, path *field.Path) field.ErrorList {
	if len(resources) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	wholeOf, subOfAll := map[string]bool{}, map[string]bool{} // of "x/*" the x, of "*/x" the x
	star, included := false, false                            // "*", and after it what that includes; before it, Kubernetes lets it pass
	for i, value := range resources {
		if value == "" {
			errs = append(errs, field.Required(path.Index(i), ""))
			continue
		}
		resource, sub, isSub := strings.Cut(value, "/")
		if !isSub {
			included = included || star && value != all
			star = star || value == all
			continue
		}
		if wholeOf[resource] {
			errs = append(errs, field.Invalid(path.Index(i), value, fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, value)))
		}
		if subOfAll[sub] {
			errs = append(errs, field.Invalid(path.Index(i), value, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, value)))
		}
		wholeOf[resource] = wholeOf[resource] || sub == all
		subOfAll[sub] = subOfAll[sub] || resource == all
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		errs = append(errs, field.Invalid(path, resources, "if '*/*' is present, must not specify other resources"))
	}
	if included {
		errs = append(errs, field.Invalid(path, resources, "if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}
