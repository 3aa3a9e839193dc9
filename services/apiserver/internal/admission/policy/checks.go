package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sadmission "k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"howdah.dev/services/apiserver/internal/admission/view"
	"howdah.dev/services/apiserver/internal/expression"
	"howdah.dev/services/apiserver/internal/registry"
)

// validations is a ValidatingAdmissionPolicy, compiled.
type validations struct {
	*definition
	revision    string
	checks      plugincel.ConditionEvaluator
	list        []registrationv1.Validation
	messages    []plugincel.ConditionEvaluator // nil where a validation has no messageExpression
	annotations plugincel.ConditionEvaluator
	keys        []string
}

func validatingIndex(objects [][]registry.Object, before []*validations) []*validations {
	made := map[string]*validations{}
	for _, v := range before {
		made[v.name] = v
	}
	bindings := map[string][]*binding{}
	for _, obj := range objects[1] {
		if b, ok := obj.(*registrationv1.ValidatingAdmissionPolicyBinding); ok {
			bindings[b.Spec.PolicyName] = append(bindings[b.Spec.PolicyName], newBinding(b.Name, b.Spec.MatchResources, b.Spec.ParamRef, b.Spec.ValidationActions))
		}
	}
	var index []*validations
	for _, obj := range objects[0] {
		p, ok := obj.(*registrationv1.ValidatingAdmissionPolicy)
		if !ok || len(bindings[p.Name]) == 0 {
			continue // a policy that nothing binds does nothing
		}
		v := made[p.Name]
		if revision := string(p.UID) + "/" + fmt.Sprint(p.Generation); v == nil || v.revision != revision {
			v = compileValidations(p)
			v.revision = revision
		}
		bound, own := *v, *v.definition
		own.bindings = bindings[p.Name]
		bound.definition = &own
		index = append(index, &bound)
	}
	return index
}

func compileValidations(p *registrationv1.ValidatingAdmissionPolicy) *validations {
	v := &validations{
		definition: newDefinition(p.Name, p.Spec.MatchConstraints, p.Spec.MatchConditions, p.Spec.ParamKind, p.Spec.FailurePolicy),
		list:       p.Spec.Validations,
	}
	with := plugincel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	c, err := compiler(p.Spec.Variables, with)
	if err != nil {
		v.err = err
		return v
	}
	checks := make([]plugincel.ExpressionAccessor, len(v.list))
	v.messages = make([]plugincel.ConditionEvaluator, len(v.list))
	for i, one := range v.list {
		checks[i] = expression.Condition(one.Expression)
		if one.MessageExpression != "" {
			v.messages[i] = c.CompileCondition([]plugincel.ExpressionAccessor{expression.Message(one.MessageExpression)},
				plugincel.OptionalVariableDeclarations{HasParams: with.HasParams}, environment.StoredExpressions)
		}
	}
	v.checks = c.CompileCondition(checks, with, environment.StoredExpressions)
	if len(p.Spec.AuditAnnotations) == 0 {
		return v
	}
	var annotations []plugincel.ExpressionAccessor
	for _, a := range p.Spec.AuditAnnotations {
		annotations = append(annotations, expression.Annotation(a.ValueExpression))
		v.keys = append(v.keys, a.Key)
	}
	v.annotations = c.CompileCondition(annotations, with, environment.StoredExpressions)
	return v
}

// decision is the outcome of one validation.
type decision struct {
	// validation is its number in the policy; -1 where the policy as a whole failed.
	validation int
	passes     bool
	failed     bool // it could not be evaluated
	message    string
	reason     metav1.StatusReason
	took       time.Duration
}

// annotation is what an audit annotation was evaluated to.
type annotation struct{ key, value string }

// input is what a policy is evaluated with.
type input struct {
	attributes *k8sadmission.VersionedAttributes
	request    *admissionv1.AdmissionRequest
	param      param
	namespace  *corev1.Namespace
	authorizer view.Authorizer
}

func (in *input) bindings(authorizer bool) plugincel.OptionalVariableBindings {
	var b plugincel.OptionalVariableBindings
	if in.param != nil {
		b.VersionedParams = in.param
	}
	if authorizer {
		b.Authorizer = in.authorizer
	}
	return b
}

// evaluate returns what the validations decide, and the audit annotations.
func (v *validations) evaluate(ctx context.Context, in *input) ([]decision, []annotation) {
	whole := func(err error) ([]decision, []annotation) {
		return []decision{{validation: -1, failed: true, passes: v.failsOpen, message: err.Error()}}, nil
	}
	if v.conditions != nil {
		with := in.bindings(true)
		result := v.conditions.Match(ctx, in.attributes, with.VersionedParams, in.authorizer)
		if result.Error != nil {
			return whole(result.Error)
		}
		if !result.Matches {
			return nil, nil
		}
	}
	results, budget, err := v.checks.ForInput(ctx, in.attributes, in.request, in.bindings(true), in.namespace, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return whole(err)
	}
	decisions := make([]decision, len(results))
	for i, r := range results {
		decisions[i] = v.decide(ctx, in, i, r, &budget)
	}
	annotations, problems := v.annotate(ctx, in)
	return append(decisions, problems...), annotations
}

func (v *validations) decide(ctx context.Context, in *input, i int, r plugincel.EvaluationResult, budget *int64) decision {
	d := decision{validation: i, took: r.Elapsed}
	switch {
	case r.Error != nil:
		d.failed, d.passes, d.message = true, v.failsOpen, r.Error.Error()
		return d
	case r.EvalResult == types.True:
		d.passes = true
		return d
	}
	one := &v.list[i]
	d.reason = metav1.StatusReasonInvalid
	if one.Reason != nil {
		d.reason = *one.Reason
	}
	text, err := v.message(ctx, in, i, budget)
	if err != nil {
		d.failed, d.passes, d.reason, d.message = true, v.failsOpen, "", fmt.Sprintf("failed messageExpression: %s", err)
		return d
	}
	if d.message = text; d.message == "" {
		d.message = strings.TrimSpace(one.Message)
	}
	if d.message == "" {
		d.message = "failed expression: " + strings.TrimSpace(one.Expression)
	}
	return d
}

// message returns what a messageExpression makes; nothing where that is no usable text. It fails where the budget is used up.
func (v *validations) message(ctx context.Context, in *input, i int, budget *int64) (string, error) {
	if v.messages[i] == nil {
		return "", nil
	}
	results, left, err := v.messages[i].ForInput(ctx, in.attributes, in.request, in.bindings(false), in.namespace, *budget)
	if errors.Is(err, apiservercel.ErrInternal) || errors.Is(err, apiservercel.ErrOutOfBudget) {
		return "", err
	}
	if err != nil || len(results) == 0 || results[0].Error != nil || results[0].EvalResult == nil {
		return "", nil
	}
	*budget = left
	text, _ := results[0].EvalResult.Value().(string)
	text = strings.TrimSpace(text)
	if len(text) > celconfig.MaxEvaluatedMessageExpressionSizeBytes || strings.Contains(text, "\n") {
		return "", nil
	}
	return text, nil
}

// maxAnnotation bounds the value of an audit annotation, in bytes.
const maxAnnotation = 10 << 10

// annotate returns the audit annotations, and what kept any from being made.
func (v *validations) annotate(ctx context.Context, in *input) (made []annotation, problems []decision) {
	if v.annotations == nil {
		return nil, nil
	}
	fail := func(text string, took time.Duration) {
		problems = append(problems, decision{validation: -1, failed: true, passes: v.failsOpen, message: text, took: took})
	}
	results, _, err := v.annotations.ForInput(ctx, in.attributes, in.request, in.bindings(true), in.namespace, celconfig.RuntimeCELCostBudget)
	if err != nil {
		fail(err.Error(), 0)
		return nil, problems
	}
	for i, r := range results {
		switch {
		case r.Error != nil:
			fail(r.Error.Error(), r.Elapsed)
		case r.EvalResult.Type() == types.StringType:
			text, _ := r.EvalResult.Value().(string)
			if text = strings.TrimSpace(text); text != "" {
				made = append(made, annotation{v.keys[i], text[:min(len(text), maxAnnotation)]})
			}
		case r.EvalResult.Type() != types.NullType:
			fail(fmt.Sprintf("valueExpression resulted in unsupported return type: %v. Return type must be either string or null.", r.EvalResult.Type()), r.Elapsed)
		}
	}
	return made, problems
}
