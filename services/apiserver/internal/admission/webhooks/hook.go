package webhooks

import (
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"

	"howdah.dev/services/apiserver/internal/admission/view"
	"howdah.dev/services/apiserver/internal/expression"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/webhook"
)

// hook is a webhook, ready to be asked.
type hook struct {
	configuration, name string
	uid                 string
	match               *view.Match
	conditions          matchconditions.Matcher // nil: there are none
	target              webhook.Target
	timeout             time.Duration
	version             string // of the reviews it is sent: "v1" or "v1beta1"
	ignoresFailure      bool
	reinvocable         bool
	sideEffects         *admissionv1.SideEffectClass
	err                 error // it cannot be asked, for this reason
}

// dryRuns reports whether the webhook may be asked about dry runs.
func (h *hook) dryRuns() bool {
	return h.sideEffects != nil && (*h.sideEffects == admissionv1.SideEffectClassNone || *h.sideEffects == admissionv1.SideEffectClassNoneOnDryRun)
}

// index is all webhooks of one phase, in the order of their configurations' names.
type index struct {
	hooks []*hook
	// made are the hooks of each configuration at its revision, so that a change of one does not compile the others again.
	made map[string]made
}

type made struct {
	revision string
	hooks    []*hook
}

func mutatingHooks(objects [][]registry.Object, before *index) *index {
	return newIndex(objects[0], before, func(obj registry.Object) []*hook {
		c, ok := obj.(*admissionv1.MutatingWebhookConfiguration)
		if !ok {
			return nil
		}
		var hooks []*hook
		for i := range c.Webhooks {
			w := &c.Webhooks[i]
			h := newHook(c.Name, i, "admit", &admissionv1.ValidatingWebhook{
				Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
				NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
				TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
			})
			h.reinvocable = w.ReinvocationPolicy != nil && *w.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy
			hooks = append(hooks, h)
		}
		return hooks
	})
}

func validatingHooks(objects [][]registry.Object, before *index) *index {
	return newIndex(objects[0], before, func(obj registry.Object) []*hook {
		c, ok := obj.(*admissionv1.ValidatingWebhookConfiguration)
		if !ok {
			return nil
		}
		var hooks []*hook
		for i := range c.Webhooks {
			hooks = append(hooks, newHook(c.Name, i, "validating", &c.Webhooks[i]))
		}
		return hooks
	})
}

func newIndex(configurations []registry.Object, before *index, hooksOf func(registry.Object) []*hook) *index {
	x := &index{made: map[string]made{}}
	for _, c := range configurations {
		m := made{revision: string(c.GetUID()) + "/" + c.GetResourceVersion()}
		if before != nil && before.made[c.GetName()].revision == m.revision {
			m = before.made[c.GetName()]
		} else {
			m.hooks = hooksOf(c)
		}
		x.made[c.GetName()] = m
		x.hooks = append(x.hooks, m.hooks...)
	}
	return x
}

func newHook(configuration string, i int, phase string, w *admissionv1.ValidatingWebhook) *hook {
	h := &hook{
		configuration: configuration, name: w.Name, uid: fmt.Sprintf("%s/%s/%d", configuration, w.Name, i), sideEffects: w.SideEffects,
		timeout: webhook.DefaultTimeout, ignoresFailure: w.FailurePolicy != nil && *w.FailurePolicy == admissionv1.Ignore,
	}
	if w.TimeoutSeconds != nil {
		h.timeout = time.Duration(*w.TimeoutSeconds) * time.Second
	}
	h.match, h.err = view.NewMatch(named(w.Rules), nil, w.MatchPolicy, w.NamespaceSelector, w.ObjectSelector)
	if h.err != nil {
		h.match = &view.Match{}
		return h
	}
	h.target = target(&w.ClientConfig)
	known := slices.IndexFunc(w.AdmissionReviewVersions, func(v string) bool { return v == "v1" || v == "v1beta1" })
	if known < 0 {
		h.err = fmt.Errorf("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
		return h
	}
	h.version = w.AdmissionReviewVersions[known]
	h.conditions = conditions(w.MatchConditions, w.FailurePolicy, phase, w.Name)
	return h
}

func named(rules []admissionv1.RuleWithOperations) []admissionv1.NamedRuleWithOperations {
	out := make([]admissionv1.NamedRuleWithOperations, len(rules))
	for i := range rules {
		out[i].RuleWithOperations = rules[i]
	}
	return out
}

func target(c *admissionv1.WebhookClientConfig) webhook.Target {
	t := webhook.Target{CABundle: c.CABundle}
	if c.URL != nil {
		t.URL = *c.URL
	}
	if s := c.Service; s != nil {
		t.Service = &webhook.Service{Namespace: s.Namespace, Name: s.Name}
		if s.Path != nil {
			t.Service.Path = *s.Path
		}
		if s.Port != nil {
			t.Service.Port = *s.Port
		}
	}
	return t
}

func conditions(list []admissionv1.MatchCondition, policy *admissionv1.FailurePolicyType, phase, name string) matchconditions.Matcher {
	if len(list) == 0 {
		return nil
	}
	compiled := make([]plugincel.CompilationResult, len(list))
	for i := range list {
		compiled[i] = expression.Plain().CompileCELExpression((*matchconditions.MatchCondition)(&list[i]),
			plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
	}
	if phase == "validate" {
		phase = "validating" // as Kubernetes' metrics of conditions have it, and of nothing else
	}
	return matchconditions.NewMatcher(plugincel.NewCondition(compiled), policy, "webhook", phase, name)
}
