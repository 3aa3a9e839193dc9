package flowcontrol

import (
	"fmt"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

// verbs are those that a rule may name beside "*".
var verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}

func validateSchema(f *flow) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateSchemaSpec(f, path)
	if fixed := MandatorySchema(f.Name); fixed != nil && !equality.Semantic.DeepEqual(f.Spec, *fixed) {
		errs = append(errs, field.Invalid(path, f.Spec, fmt.Sprintf("spec of '%s' must equal the fixed value", f.Name)))
	}
	return append(errs, schemaConditions(f.Status.Conditions)...)
}

func validateSchemaStatus(f, _ *flow) field.ErrorList { return schemaConditions(f.Status.Conditions) }

func validateSchemaSpec(f *flow, path *field.Path) field.ErrorList {
	spec, precedence := &f.Spec, path.Child("matchingPrecedence")
	var errs field.ErrorList
	if spec.MatchingPrecedence <= 0 {
		errs = append(errs, field.Invalid(precedence, spec.MatchingPrecedence, "must be a positive value"))
	}
	if most := int32(flowcontrolv1.FlowSchemaMaxMatchingPrecedence); spec.MatchingPrecedence > most {
		errs = append(errs, field.Invalid(precedence, spec.MatchingPrecedence, fmt.Sprintf("must not be greater than %v", most)))
	}
	if spec.MatchingPrecedence == 1 && f.Name != flowcontrolv1.FlowSchemaNameExempt {
		errs = append(errs, field.Invalid(precedence, spec.MatchingPrecedence, "only the schema named 'exempt' may have matchingPrecedence 1"))
	}
	methods := []flowcontrolv1.FlowDistinguisherMethodType{flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType}
	if m := spec.DistinguisherMethod; m != nil && !slices.Contains(methods, m.Type) {
		errs = append(errs, field.NotSupported(path.Child("distinguisherMethod", "type"), m, methods))
	}
	name := path.Child("priorityLevelConfiguration", "name")
	if spec.PriorityLevelConfiguration.Name == "" {
		errs = append(errs, field.Required(name, "must reference a priority level"))
	} else {
		errs = append(errs, check.Subdomain(spec.PriorityLevelConfiguration.Name, name)...)
	}
	for i := range spec.Rules {
		errs = append(errs, validateRules(&spec.Rules[i], path.Child("rules").Index(i))...)
	}
	return errs
}

func validateRules(r *flowcontrolv1.PolicyRulesWithSubjects, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.Subjects) == 0 {
		errs = append(errs, field.Required(path.Child("subjects"), "subjects must contain at least one value"))
	}
	for i := range r.Subjects {
		errs = append(errs, validateSubject(&r.Subjects[i], path.Child("subjects").Index(i))...)
	}
	if len(r.ResourceRules) == 0 && len(r.NonResourceRules) == 0 {
		errs = append(errs, field.Required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	for i := range r.ResourceRules {
		errs = append(errs, validateResourceRule(&r.ResourceRules[i], path.Child("resourceRules").Index(i))...)
	}
	for i, rule := range r.NonResourceRules {
		at := path.Child("nonResourceRules").Index(i)
		errs = append(errs, validateVerbs(rule.Verbs, at.Child("verbs"))...)
		errs = append(errs, validateURLs(rule.NonResourceURLs, at.Child("nonResourceURLs"))...)
	}
	return errs
}

func validateSubject(s *flowcontrolv1.Subject, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	known := false
	for _, part := range []struct {
		kind    flowcontrolv1.SubjectKind
		name    string
		set     bool
		problem func(*field.Path) field.ErrorList
	}{
		{flowcontrolv1.SubjectKindServiceAccount, "serviceAccount", s.ServiceAccount != nil, func(p *field.Path) field.ErrorList { return validateAccount(s.ServiceAccount, p) }},
		{flowcontrolv1.SubjectKindUser, "user", s.User != nil, func(p *field.Path) field.ErrorList { return named(s.User.Name, p) }},
		{flowcontrolv1.SubjectKindGroup, "group", s.Group != nil, func(p *field.Path) field.ErrorList { return named(s.Group.Name, p) }},
	} {
		at := path.Child(part.name)
		switch {
		case s.Kind == part.kind && !part.set:
			known = true
			errs = append(errs, field.Required(at, fmt.Sprintf("%s is required when subject kind is '%s'", part.name, part.kind)))
		case s.Kind == part.kind:
			known = true
			errs = append(errs, part.problem(at)...)
		case part.set:
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("%s is forbidden when subject kind is not '%s'", part.name, part.kind)))
		}
	}
	if !known {
		return check.OneOf(s.Kind, path.Child("kind"), flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser)
	}
	return errs
}

func named(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path.Child("name"), "")}
	}
	return nil
}

func validateAccount(a *flowcontrolv1.ServiceAccountSubject, path *field.Path) field.ErrorList {
	errs := named(a.Name, path)
	if a.Name != "" && a.Name != flowcontrolv1.NameAll {
		errs = append(errs, check.Each(validation.ValidateServiceAccountName(a.Name, false), a.Name, path.Child("name"))...)
	}
	if a.Namespace == "" {
		return append(errs, field.Required(path.Child("namespace"), "must specify namespace for service account"))
	}
	return append(errs, check.Each(validation.ValidateNamespaceName(a.Namespace, false), a.Namespace, path.Child("namespace"))...)
}

func validateVerbs(list []string, path *field.Path) field.ErrorList {
	switch {
	case len(list) == 0:
		return field.ErrorList{field.Required(path, "verbs must contain at least one value")}
	case slices.Contains(list, "*"):
		return alone(list, "verbs", path)
	case slices.ContainsFunc(list, func(v string) bool { return !slices.Contains(verbs, v) }):
		return field.ErrorList{field.NotSupported(path, list, verbs)}
	}
	return nil
}

// alone refuses others beside "*".
func alone(list []string, what string, path *field.Path) field.ErrorList {
	if len(list) > 1 && slices.Contains(list, "*") {
		return field.ErrorList{field.Invalid(path, list, "if '*' is present, must not specify other "+what)}
	}
	return nil
}

func validateResourceRule(r *flowcontrolv1.ResourcePolicyRule, path *field.Path) field.ErrorList {
	errs := validateVerbs(r.Verbs, path.Child("verbs"))
	if len(r.APIGroups) == 0 {
		errs = append(errs, field.Required(path.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	errs = append(errs, alone(r.APIGroups, "api groups", path.Child("apiGroups"))...)
	if len(r.Resources) == 0 {
		errs = append(errs, field.Required(path.Child("resources"), "resource rules must supply at least one resource"))
	}
	errs = append(errs, alone(r.Resources, "resources", path.Child("resources"))...)
	at := path.Child("namespaces")
	if len(r.Namespaces) == 0 && !r.ClusterScope {
		errs = append(errs, field.Required(at, "resource rules that are not cluster scoped must supply at least one namespace"))
	}
	if slices.Contains(r.Namespaces, flowcontrolv1.NamespaceEvery) {
		return append(errs, alone(r.Namespaces, "namespaces", at)...)
	}
	for i, n := range r.Namespaces {
		for _, problem := range validation.ValidateNamespaceName(n, false) {
			errs = append(errs, field.Invalid(at.Index(i), n, "each member of this list must be '*' or a DNS-1123 label; "+problem))
		}
	}
	return errs
}

func validateURLs(list []string, path *field.Path) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, "nonResourceURLs must contain at least one value")}
	}
	if slices.Contains(list, flowcontrolv1.NonResourceAll) {
		return alone(list, "non-resource URLs", path)
	}
	var errs field.ErrorList
	for i, url := range list {
		if problem := urlProblem(url); problem != "" {
			errs = append(errs, field.Invalid(path.Index(i), url, problem))
		}
	}
	return errs
}

func urlProblem(url string) string {
	star := strings.IndexByte(url, '*')
	switch {
	case url == "":
		return "must not be empty"
	case url == "/":
		return ""
	case url[0] != '/':
		return "must start with slash"
	case strings.Contains(url, " "):
		return "must not contain white-space"
	case strings.Contains(url, "//"):
		return "must not contain double slash"
	case star >= 0 && (star != len(url)-1 || !strings.HasSuffix(url, "/*")):
		return "wildcard can only do suffix matching"
	}
	return ""
}

func schemaConditions(list []flowcontrolv1.FlowSchemaCondition) field.ErrorList {
	types := make([]string, len(list))
	for i := range list {
		types[i] = string(list[i].Type)
	}
	return conditionTypes(types)
}

// conditionTypes refuses those that are empty or come twice.
func conditionTypes(types []string) field.ErrorList {
	var errs field.ErrorList
	for i, t := range types {
		path := field.NewPath("status", "conditions").Index(i).Child("type")
		if slices.Contains(types[:i], t) {
			errs = append(errs, field.Duplicate(path, t))
		}
		if t == "" {
			errs = append(errs, field.Required(path, ""))
		}
	}
	return errs
}
