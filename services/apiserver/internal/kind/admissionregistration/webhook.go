package admissionregistration

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/expression"
	"howdah.dev/services/apiserver/internal/kind/row"
)

// Defaults of a webhook.
const (
	defaultTimeout = 10 // seconds
	defaultPort    = 443
	maxTimeout     = 30 // seconds
)

// hook is what webhooks of both kinds have, by reference.
type hook struct {
	name              string
	client            *admissionv1.WebhookClientConfig
	rules             []admissionv1.RuleWithOperations
	failure           **admissionv1.FailurePolicyType
	match             **admissionv1.MatchPolicyType
	namespaces        **metav1.LabelSelector
	objects           **metav1.LabelSelector
	sideEffects       *admissionv1.SideEffectClass
	timeout           **int32
	versions          []string
	conditions        []admissionv1.MatchCondition
	reinvocation      *admissionv1.ReinvocationPolicyType
	checkReinvocation bool
}

func asHook(w *admissionv1.ValidatingWebhook) *hook {
	return &hook{
		name: w.Name, client: &w.ClientConfig, rules: w.Rules, failure: &w.FailurePolicy, match: &w.MatchPolicy, namespaces: &w.NamespaceSelector,
		objects: &w.ObjectSelector, sideEffects: w.SideEffects, timeout: &w.TimeoutSeconds, versions: w.AdmissionReviewVersions, conditions: w.MatchConditions,
	}
}

func asMutatingHook(w *admissionv1.MutatingWebhook) *hook {
	return &hook{
		name: w.Name, client: &w.ClientConfig, rules: w.Rules, failure: &w.FailurePolicy, match: &w.MatchPolicy, namespaces: &w.NamespaceSelector,
		objects: &w.ObjectSelector, sideEffects: w.SideEffects, timeout: &w.TimeoutSeconds, versions: w.AdmissionReviewVersions, conditions: w.MatchConditions,
		reinvocation: w.ReinvocationPolicy, checkReinvocation: w.ReinvocationPolicy != nil,
	}
}

func defaultWebhook(h *hook) {
	row.Set(h.failure, admissionv1.Fail)
	row.Set(h.match, admissionv1.Equivalent)
	row.Set(h.namespaces, metav1.LabelSelector{})
	row.Set(h.objects, metav1.LabelSelector{})
	row.Set(h.timeout, int32(defaultTimeout))
	for i := range h.rules {
		row.Set(&h.rules[i].Scope, admissionv1.AllScopes)
	}
	if h.client.Service != nil {
		row.Set(&h.client.Service.Port, int32(defaultPort))
	}
}

func validateValidatingWebhooks(c, old *validatingWebhooks) field.ErrorList {
	return validateHooks(validatingHooks(c), validatingHooks(old), old != nil)
}

func validateMutatingWebhooks(c, old *mutatingWebhooks) field.ErrorList {
	return validateHooks(mutatingHooks(c), mutatingHooks(old), old != nil)
}

func validatingHooks(c *validatingWebhooks) []*hook {
	if c == nil {
		return nil
	}
	hooks := make([]*hook, len(c.Webhooks))
	for i := range c.Webhooks {
		hooks[i] = asHook(&c.Webhooks[i])
	}
	return hooks
}

func mutatingHooks(c *mutatingWebhooks) []*hook {
	if c == nil {
		return nil
	}
	hooks := make([]*hook, len(c.Webhooks))
	for i := range c.Webhooks {
		hooks[i] = asMutatingHook(&c.Webhooks[i])
	}
	return hooks
}

func validateHooks(hooks, old []*hook, update bool) field.ErrorList {
	var may kept
	if update {
		may = keptOf(hooks, old)
	}
	var errs field.ErrorList
	names := map[string]bool{}
	for i, h := range hooks {
		path := field.NewPath("webhooks").Index(i)
		errs = append(errs, h.validate(&may, path)...)
		errs = append(errs, validateVersions(h.versions, may.versions, path.Child("admissionReviewVersions"))...)
		if names[h.name] && h.name != "" && !may.names {
			errs = append(errs, field.Duplicate(path.Child("name"), h.name))
		}
		names[h.name] = true
	}
	return errs
}

func (h *hook) validate(may *kept, path *field.Path) field.ErrorList {
	errs := validation.IsFullyQualifiedName(path.Child("name"), h.name)
	for i := range h.rules {
		errs = append(errs, validateRule(&h.rules[i], path.Child("rules").Index(i))...)
	}
	if *h.failure != nil {
		errs = append(errs, check.OneOf(**h.failure, path.Child("failurePolicy"), admissionv1.Fail, admissionv1.Ignore)...)
	}
	if *h.match != nil {
		errs = append(errs, check.OneOf(**h.match, path.Child("matchPolicy"), admissionv1.Exact, admissionv1.Equivalent)...)
	}
	effects, said := harmless, "None, NoneOnDryRun"
	if may.sideEffects {
		effects, said = sideEffects, "None, NoneOnDryRun, Some, Unknown"
	}
	if h.sideEffects == nil {
		errs = append(errs, field.Required(path.Child("sideEffects"), "must specify one of "+said))
	} else {
		errs = append(errs, check.OneOf(*h.sideEffects, path.Child("sideEffects"), effects...)...)
	}
	if t := *h.timeout; t != nil && (*t < 1 || *t > maxTimeout) {
		errs = append(errs, field.Invalid(path.Child("timeoutSeconds"), *t, "the timeout value must be between 1 and 30 seconds"))
	}
	errs = append(errs, validateOldSelector(*h.namespaces, may.selectors, path.Child("namespaceSelector"))...)
	errs = append(errs, validateOldSelector(*h.objects, may.selectors, path.Child("objectSelector"))...)
	if h.checkReinvocation {
		errs = append(errs, check.OneOf(*h.reinvocation, path.Child("reinvocationPolicy"), admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy)...)
	}
	errs = append(errs, validateClient(h.client, path.Child("clientConfig"))...)
	if may.conditions {
		return errs
	}
	return append(errs, validateConditions(h.conditions, false, may.expressions, path.Child("matchConditions"))...)
}

var reviewVersions = []string{"v1", "v1beta1"}

func validateVersions(versions []string, unknown bool, path *field.Path) field.ErrorList {
	known := strings.Join(reviewVersions, ", ")
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "must specify one of "+known)}
	}
	var errs field.ErrorList
	accepted := false
	for i, v := range versions {
		if slices.Contains(versions[:i], v) {
			errs = append(errs, field.Invalid(path.Index(i), v, "duplicate version"))
			continue
		}
		errs = append(errs, check.Each(validation.IsDNS1035Label(v), v, path.Index(i))...)
		accepted = accepted || slices.Contains(reviewVersions, v)
	}
	if !accepted && !unknown {
		errs = append(errs, field.Invalid(path, versions, "must include at least one of "+known))
	}
	return errs
}

func validateClient(c *admissionv1.WebhookClientConfig, path *field.Path) field.ErrorList {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		return field.ErrorList{field.Required(path, "exactly one of url or service is required")}
	case c.URL != nil:
		return validateURL(*c.URL, path.Child("url"))
	}
	return validateService(c.Service, path.Child("service"))
}

func validateURL(text string, path *field.Path) field.ErrorList {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(path, "url must be a valid URL: "+err.Error()+form)}
	}
	var errs field.ErrorList
	if u.Scheme != "https" {
		errs = append(errs, field.Invalid(path, u.Scheme, "'https' is the only allowed URL scheme"+form))
	}
	if u.Host == "" {
		errs = append(errs, field.Invalid(path, u.Host, "host must be specified"+form))
	}
	if u.User != nil {
		errs = append(errs, field.Invalid(path, u.User.String(), "user information is not permitted in the URL"))
	}
	if u.Fragment != "" {
		errs = append(errs, field.Invalid(path, u.Fragment, "fragments are not permitted in the URL"))
	}
	if u.RawQuery != "" {
		errs = append(errs, field.Invalid(path, u.RawQuery, "query parameters are not permitted in the URL"))
	}
	return errs
}

func validateService(s *admissionv1.ServiceReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	// Kubernetes takes the one for the other here.
	if s.Namespace == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("namespace"), ""))
	}
	if s.Port != nil {
		for _, m := range validation.IsValidPortNum(int(*s.Port)) {
			errs = append(errs, field.Invalid(path.Child("port"), *s.Port, "port is not valid: "+m))
		}
	}
	if s.Path == nil {
		return errs
	}
	return append(errs, validatePath(*s.Path, path.Child("path"))...)
}

func validatePath(text string, path *field.Path) field.ErrorList {
	if text == "" || text == "/" {
		return nil
	}
	if text == "//" {
		return field.ErrorList{field.Invalid(path, text, "segment[0] may not be empty")}
	}
	var errs field.ErrorList
	if text[0] != '/' {
		errs = append(errs, field.Invalid(path, text, "must start with a '/'"))
	}
	// The first character is passed over even if it is no slash.
	for i, segment := range strings.Split(strings.TrimSuffix(text[1:], "/"), "/") {
		if segment == "" {
			errs = append(errs, field.Invalid(path, text, fmt.Sprintf("segment[%d] may not be empty", i)))
			continue
		}
		for _, m := range validation.IsDNS1123Subdomain(segment) {
			errs = append(errs, field.Invalid(path, text, fmt.Sprintf("segment[%d]: %v", i, m)))
		}
	}
	return errs
}

// maxConditions is how many match conditions there may be.
const maxConditions = 64

func validateConditions(conditions []admissionv1.MatchCondition, params bool, known texts, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(conditions) > maxConditions {
		errs = append(errs, field.TooMany(path, len(conditions), maxConditions))
	}
	names := map[string]bool{}
	for i, c := range conditions {
		at := path.Index(i)
		if text := strings.TrimSpace(c.Expression); text == "" {
			errs = append(errs, field.Required(at.Child("expression"), ""))
		} else {
			errs = append(errs, compile(expression.Plain(), expression.Condition(text), params, true, known.mode(text), at.Child("expression"))...)
		}
		if c.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
			continue
		}
		errs = append(errs, check.QualifiedName(c.Name, at.Child("name"))...)
		if names[c.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		names[c.Name] = true
	}
	return errs
}
