// Package admissionregistration has the kinds that add to admission: webhooks, CEL policies and the bindings of those.
package admissionregistration

import (
	"reflect"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/legacy"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

type (
	mutatingWebhooks   = admissionv1.MutatingWebhookConfiguration
	validatingWebhooks = admissionv1.ValidatingWebhookConfiguration
	validatingPolicy   = admissionv1.ValidatingAdmissionPolicy
	validatingBinding  = admissionv1.ValidatingAdmissionPolicyBinding
	mutatingPolicy     = admissionv1.MutatingAdmissionPolicy
	mutatingBinding    = admissionv1.MutatingAdmissionPolicyBinding
)

var (
	v1      = admissionv1.SchemeGroupVersion
	v1beta1 = admissionv1beta1.SchemeGroupVersion
)

// Kinds returns the kinds; now is the clock for ages.
func Kinds(now func() time.Time) []*registry.Kind {
	return []*registry.Kind{
		validatingWebhookKind(now), mutatingWebhookKind(now),
		validatingPolicyKind(now), validatingBindingKind(now),
		mutatingPolicyKind(now), mutatingBindingKind(now),
	}
}

// current takes the deprecation from a version that is not deprecated yet.
func current(v registry.Version) []registry.Version {
	v.Deprecated = ""
	return []registry.Version{v}
}

func validatingWebhookKind(now func() time.Time) *registry.Kind {
	k := row.Of[validatingWebhooks, admissionv1.ValidatingWebhookConfigurationList](v1, "validatingwebhookconfigurations")
	k.Categories, k.NeedsRevision = []string{"api-extensions"}, true
	countWebhooks(k, func(c *validatingWebhooks) any { return c.Webhooks })
	k.Default = typed.Do(func(c *validatingWebhooks) {
		for i := range c.Webhooks {
			defaultWebhook(asHook(&c.Webhooks[i]))
		}
	})
	typed.Ratchet(k, validateValidatingWebhooks)
	k.Columns = webhookColumns()
	k.Cells = typed.Get(func(c *validatingWebhooks) []any {
		return []any{c.Name, int64(len(c.Webhooks)), column.Since(now(), c.CreationTimestamp.Time)}
	})
	return k
}

func mutatingWebhookKind(now func() time.Time) *registry.Kind {
	k := row.Of[mutatingWebhooks, admissionv1.MutatingWebhookConfigurationList](v1, "mutatingwebhookconfigurations")
	k.Categories, k.NeedsRevision = []string{"api-extensions"}, true
	countWebhooks(k, func(c *mutatingWebhooks) any { return c.Webhooks })
	k.Default = typed.Do(func(c *mutatingWebhooks) {
		for i := range c.Webhooks {
			defaultWebhook(asMutatingHook(&c.Webhooks[i]))
			row.Set(&c.Webhooks[i].ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
		}
	})
	typed.Ratchet(k, validateMutatingWebhooks)
	k.Columns = webhookColumns()
	k.Cells = typed.Get(func(c *mutatingWebhooks) []any {
		return []any{c.Name, int64(len(c.Webhooks)), column.Since(now(), c.CreationTimestamp.Time)}
	})
	return k
}

// countWebhooks counts every difference, that of an empty list and none, too.
func countWebhooks[T registry.Object](k *registry.Kind, webhooks func(T) any) {
	k.PrepareCreate = func(obj registry.Object) { obj.SetGeneration(1) }
	k.PrepareUpdate = func(obj, old registry.Object) {
		obj.SetGeneration(old.GetGeneration())
		if !reflect.DeepEqual(webhooks(obj.(T)), webhooks(old.(T))) {
			obj.SetGeneration(old.GetGeneration() + 1)
		}
	}
}

func webhookColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		column.Name(), column.Integer("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"), column.Age(),
	}
}

func validatingPolicyKind(now func() time.Time) *registry.Kind {
	k := row.Of[validatingPolicy, admissionv1.ValidatingAdmissionPolicyList](v1, "validatingadmissionpolicies")
	k.StatusCreates = true
	k.Categories, k.NeedsRevision = []string{"api-extensions"}, true
	row.SpecStatus(k, func(p *validatingPolicy) *admissionv1.ValidatingAdmissionPolicySpec { return &p.Spec },
		func(p *validatingPolicy) *admissionv1.ValidatingAdmissionPolicyStatus { return &p.Status }, validatePolicyStatus)
	row.KeepMeta(k)
	k.Default = typed.Do(func(p *validatingPolicy) {
		row.Set(&p.Spec.FailurePolicy, admissionv1.Fail)
		defaultMatch(p.Spec.MatchConstraints)
	})
	typed.Ratchet(k, validateValidatingPolicy)
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.Integer("Validations", "Validations indicates the number of validation rules defined in this configuration"),
		column.String("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"), column.Age(),
	}
	k.Cells = typed.Get(func(p *validatingPolicy) []any {
		return []any{p.Name, int64(len(p.Spec.Validations)), paramKind(p.Spec.ParamKind), column.Since(now(), p.CreationTimestamp.Time)}
	})
	return k
}

func mutatingPolicyKind(now func() time.Time) *registry.Kind {
	k := row.Of[mutatingPolicy, admissionv1.MutatingAdmissionPolicyList](v1, "mutatingadmissionpolicies")
	k.Categories, k.NeedsRevision = []string{"api-extensions"}, true
	row.Spec(k, func(p *mutatingPolicy) *admissionv1.MutatingAdmissionPolicySpec { return &p.Spec })
	fill := func(p *mutatingPolicy) {
		row.Set(&p.Spec.FailurePolicy, admissionv1.Fail)
		defaultMatch(p.Spec.MatchConstraints)
	}
	k.Default = typed.Do(fill)
	k.Served = current(legacy.Version[admissionv1beta1.MutatingAdmissionPolicy, admissionv1beta1.MutatingAdmissionPolicyList, mutatingPolicy](v1beta1, v1, "", "", fill))
	typed.Ratchet(k, validateMutatingPolicy)
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.Integer("Mutations", "Mutation indicates the number of mutations rules defined in this configuration"),
		column.String("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"), column.Age(),
	}
	k.Cells = typed.Get(func(p *mutatingPolicy) []any {
		return []any{p.Name, int64(len(p.Spec.Mutations)), paramKind(p.Spec.ParamKind), column.Since(now(), p.CreationTimestamp.Time)}
	})
	return k
}

func validatingBindingKind(now func() time.Time) *registry.Kind {
	k := row.Of[validatingBinding, admissionv1.ValidatingAdmissionPolicyBindingList](v1, "validatingadmissionpolicybindings")
	k.Categories, k.NeedsRevision = []string{"api-extensions"}, true
	row.Spec(k, func(b *validatingBinding) *admissionv1.ValidatingAdmissionPolicyBindingSpec { return &b.Spec })
	k.Default = typed.Do(func(b *validatingBinding) { defaultMatch(b.Spec.MatchResources) })
	k.Validate = typed.Check(validateValidatingBinding)
	k.Columns = bindingColumns()
	k.Cells = typed.Get(func(b *validatingBinding) []any {
		return []any{b.Name, b.Spec.PolicyName, paramRef(b.Spec.ParamRef), column.Since(now(), b.CreationTimestamp.Time)}
	})
	return k
}

func mutatingBindingKind(now func() time.Time) *registry.Kind {
	k := row.Of[mutatingBinding, admissionv1.MutatingAdmissionPolicyBindingList](v1, "mutatingadmissionpolicybindings")
	k.Categories, k.NeedsRevision = []string{"api-extensions"}, true
	row.Spec(k, func(b *mutatingBinding) *admissionv1.MutatingAdmissionPolicyBindingSpec { return &b.Spec })
	fill := func(b *mutatingBinding) { defaultMatch(b.Spec.MatchResources) }
	k.Default = typed.Do(fill)
	k.Served = current(legacy.Version[admissionv1beta1.MutatingAdmissionPolicyBinding, admissionv1beta1.MutatingAdmissionPolicyBindingList, mutatingBinding](v1beta1, v1, "", "", fill))
	k.Validate = typed.Check(validateMutatingBinding)
	k.Columns = bindingColumns()
	k.Cells = typed.Get(func(b *mutatingBinding) []any {
		return []any{b.Name, b.Spec.PolicyName, paramRef(b.Spec.ParamRef), column.Since(now(), b.CreationTimestamp.Time)}
	})
	return k
}

func bindingColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		column.Name(), column.String("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
		column.String("ParamRef", "ParamRef indicates the param resource which sets the configuration param"), column.Age(),
	}
}

func paramKind(k *admissionv1.ParamKind) string {
	if k == nil {
		return "<unset>"
	}
	return k.APIVersion + "/" + k.Kind
}

func paramRef(r *admissionv1.ParamRef) string {
	switch {
	case r == nil:
		return "<unset>"
	case r.Name != "" && r.Namespace != "":
		return r.Namespace + "/" + r.Name
	case r.Name != "":
		return "*/" + r.Name // in the namespace of what is asked for
	}
	return r.Selector.String()
}
