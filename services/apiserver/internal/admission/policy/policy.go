// Package policy has the plugins MutatingAdmissionPolicy and ValidatingAdmissionPolicy: CEL expressions that the API configures,
// bound to what they apply to, with parameters from other objects.
//
// Expressions are compiled when a policy changes, not when it is asked. Each evaluation has a budget; one that exceeds it, or
// fails, is decided by the failure policy.
package policy

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/admission/view"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/expression"
	"howdah.dev/services/apiserver/internal/registry"
)

// Config is what the plugins need.
type Config struct {
	Table      *registry.Table
	Cache      *cache.Cache
	Objects    admission.Objects
	Authorizer authz.Authorizer
	// Types tells what the fields of a version's objects are, for ApplyConfigurations.
	Types Types
	// Registerer takes the metrics; nil registers them nowhere.
	Registerer prometheus.Registerer
}

// New returns both plugins.
func New(cfg Config) (*Mutating, *Validating) {
	e := &evaluator{table: cfg.Table, objects: cfg.Objects, authorizer: view.Authorizer{Authorizer: cfg.Authorizer}}
	group := registrationv1.GroupName
	return &Mutating{
			e, view.Follow(cfg.Table, cfg.Cache, group, []string{"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}, mutatingIndex),
			cfg.Types, newMetrics(cfg.Registerer, "mutating_admission_policy"),
		}, &Validating{
			e, view.Follow(cfg.Table, cfg.Cache, group, []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"}, validatingIndex),
			newMetrics(cfg.Registerer, "validating_admission_policy", "enforcement_action"),
		}
}

// exempt reports whether a write is to a policy or a binding, as nobody could repair a policy that refuses its own repair, or a review, which
// is no write at all.
func exempt(a *admission.Attributes) bool {
	switch a.Resource.Kind.GVK.Group {
	case "authentication.k8s.io", "authorization.k8s.io":
		return true
	}
	return view.Exempt(a) && strings.Contains(a.Resource.Kind.Resource, "admissionpolic")
}

// evaluator is what both plugins share.
type evaluator struct {
	table      *registry.Table
	objects    admission.Objects
	authorizer view.Authorizer
}

// definition is what policies of both kinds have, compiled.
type definition struct {
	name       string
	match      *view.Match
	conditions matchconditions.Matcher // nil: there are none
	params     *registrationv1.ParamKind
	failsOpen  bool
	bindings   []*binding
	err        error // it cannot be evaluated, for this reason
}

// binding applies a policy.
type binding struct {
	name    string
	match   *view.Match
	params  *registrationv1.ParamRef
	actions []registrationv1.ValidationAction
	err     error
}

func newDefinition(name string, match *registrationv1.MatchResources, conditions []registrationv1.MatchCondition, params *registrationv1.ParamKind, policy *registrationv1.FailurePolicyType) *definition {
	d := &definition{name: name, params: params, failsOpen: policy != nil && *policy == registrationv1.Ignore}
	if match == nil {
		match = &registrationv1.MatchResources{}
	}
	d.match, d.err = view.NewMatch(match.ResourceRules, match.ExcludeResourceRules, match.MatchPolicy, match.NamespaceSelector, match.ObjectSelector)
	if len(conditions) == 0 {
		return d
	}
	with := plugincel.OptionalVariableDeclarations{HasParams: params != nil, HasAuthorizer: true}
	compiled := make([]plugincel.CompilationResult, len(conditions))
	for i := range conditions {
		compiled[i] = expression.Plain().CompileCELExpression((*matchconditions.MatchCondition)(&conditions[i]), with, environment.StoredExpressions)
	}
	d.conditions = matchconditions.NewMatcher(plugincel.NewCondition(compiled), policy, "policy", "validate", name)
	return d
}

func newBinding(name string, match *registrationv1.MatchResources, params *registrationv1.ParamRef, actions []registrationv1.ValidationAction) *binding {
	b := &binding{name: name, params: params, actions: actions}
	if match == nil {
		match = &registrationv1.MatchResources{}
	}
	b.match, b.err = view.NewMatch(match.ResourceRules, match.ExcludeResourceRules, match.MatchPolicy, match.NamespaceSelector, match.ObjectSelector)
	if b.match != nil {
		b.match.Any = true
	}
	return b
}

// compiler returns one that knows the policy's variables.
func compiler(variables []registrationv1.Variable, with plugincel.OptionalVariableDeclarations) (*plugincel.CompositedCompiler, error) {
	c, err := expression.Composed()
	if err != nil {
		return nil, fmt.Errorf("failed to initialize CEL compiler: %w", err)
	}
	for _, v := range variables {
		// One that does not compile fails whoever uses it.
		c.CompileAndStoreVariable(expression.Variable(v.Name, v.Expression), with, environment.StoredExpressions)
	}
	return c, nil
}

// occasion is one write, as a policy is asked about it.
type occasion struct {
	request   *view.Request
	namespace *corev1.Namespace
	known     bool // namespace has been looked for
}

// where returns the namespace of the write.
func (o *occasion) where(ctx context.Context, objects admission.Objects) (*corev1.Namespace, error) {
	if o.known {
		return o.namespace, nil
	}
	ns, err := o.request.NamespaceObject(ctx, objects)
	if err != nil {
		return nil, err
	}
	o.known, o.namespace = true, plugincel.CreateNamespaceObject(ns)
	return o.namespace, nil
}

// param is a parameter; nil is none.
type param = *unstructured.Unstructured
