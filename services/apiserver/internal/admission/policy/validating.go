package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/admission/view"
	"howdah.dev/services/apiserver/internal/registry"
)

// Validating is the plugin ValidatingAdmissionPolicy.
type Validating struct {
	*evaluator
	index   *view.Followed[[]*validations]
	metrics *metrics
}

// Name implements admission.Plugin.
func (*Validating) Name() string { return "ValidatingAdmissionPolicy" }

// Handles implements admission.Plugin.
func (p *Validating) Handles(a *admission.Attributes) bool {
	return !p.index.Ready() || len(p.index.Get()) > 0 && !exempt(a)
}

// Validate implements admission.Validator.
func (p *Validating) Validate(ctx context.Context, a *admission.Attributes) error {
	if err := p.index.Await(ctx); err != nil || exempt(a) {
		return err
	}
	v := &verdict{plugin: p, occasion: occasion{request: view.New(a, p.table)}}
	for _, policy := range p.index.Get() {
		if err := v.ask(ctx, policy); err != nil {
			return admission.Final(err)
		}
	}
	return admission.Final(v.refusal())
}

// verdict collects what the policies say about one write.
type verdict struct {
	plugin *Validating
	occasion
	denials []denial
}

// denial is a reason to refuse the write.
type denial struct {
	text   string
	reason metav1.StatusReason
}

func (v *verdict) deny(policy *validations, b *binding, text string, reason metav1.StatusReason) {
	if b != nil {
		text = fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", policy.name, b.name, text)
	} else {
		text = fmt.Sprintf("ValidatingAdmissionPolicy '%s' denied request: %s", policy.name, text)
	}
	v.denials = append(v.denials, denial{text, reason})
}

// misconfigured refuses the write for a policy or binding that cannot be evaluated, unless it fails open.
func (v *verdict) misconfigured(policy *validations, b *binding, err error) {
	what := "policy"
	if b != nil {
		what = "binding"
	}
	if !policy.failsOpen {
		v.deny(policy, b, fmt.Sprintf("failed to configure %s: %v", what, err), "")
	}
}

// ask evaluates one policy through its bindings. It fails where the write's own surroundings cannot be read.
func (v *verdict) ask(ctx context.Context, policy *validations) error {
	res, err := policy.match.Matches(ctx, v.request, v.plugin.objects)
	if err == nil && res == nil {
		return nil
	}
	if err == nil {
		err = policy.err
	}
	if err != nil {
		v.misconfigured(policy, nil, err)
		return nil
	}
	kind, err := v.plugin.paramKind(policy.params)
	if err != nil {
		v.misconfigured(policy, nil, err)
		return nil
	}
	var told []annotation
	for _, b := range policy.bindings {
		annotations, err := v.bound(ctx, policy, b, res, kind)
		if err != nil {
			return err
		}
		told = append(told, annotations...)
	}
	v.publish(policy, told)
	return nil
}

func (v *verdict) bound(ctx context.Context, policy *validations, b *binding, res, kind *registry.Resource) ([]annotation, error) {
	err := b.err
	var matched *registry.Resource
	if err == nil {
		matched, err = b.match.Matches(ctx, v.request, v.plugin.objects)
	}
	if err == nil && matched == nil {
		return nil, nil
	}
	var params []param
	if err == nil {
		params, err = v.plugin.params(ctx, kind, b.params, v.request.Namespace)
	}
	if err != nil {
		v.misconfigured(policy, b, err)
		return nil, nil
	}
	if len(params) == 0 {
		return nil, nil
	}
	in, err := v.plugin.input(ctx, &v.occasion, res)
	var conversion *conversionError
	if errors.As(err, &conversion) {
		v.misconfigured(policy, b, err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var told []annotation
	for _, one := range params {
		in.param = one
		decisions, annotations := policy.evaluate(ctx, in)
		told = append(told, annotations...)
		v.enforce(policy, b, decisions)
	}
	return told, nil
}

// conversionError says that the write cannot be shown in the version of a policy.
type conversionError struct{ cause error }

// Error implements error.
func (e *conversionError) Error() string {
	return fmt.Sprintf("failed to convert object version: %v", e.cause)
}

// input returns what a policy is evaluated with, but for its parameter.
func (e *evaluator) input(ctx context.Context, o *occasion, res *registry.Resource) (*input, error) {
	version, err := o.request.As(ctx, res)
	if err != nil {
		return nil, &conversionError{err}
	}
	attributes, err := version.Attributes(ctx)
	if err != nil {
		return nil, &conversionError{err}
	}
	namespace, err := o.where(ctx, e.objects)
	if err != nil {
		return nil, err
	}
	return &input{
		attributes: attributes, namespace: namespace, authorizer: e.authorizer,
		request: plugincel.CreateAdmissionRequest(attributes.Attributes, metav1.GroupVersionResource(res.GVR), metav1.GroupVersionKind(version.Kind)),
	}, nil
}

// enforce does with the decisions what the binding says.
func (v *verdict) enforce(policy *validations, b *binding, decisions []decision) {
	var audited []auditedFailure
	for _, d := range decisions {
		kind := noError
		if d.failed {
			kind = errorType(d.message)
		}
		if d.passes {
			if d.failed {
				v.plugin.metrics.observe(d.took, policy.name, b.name, kind, "allow")
			}
			continue
		}
		for _, action := range b.actions {
			switch action {
			case registrationv1.Deny:
				v.deny(policy, b, d.message, d.reason)
				v.plugin.metrics.observe(d.took, policy.name, b.name, kind, "deny")
			case registrationv1.Warn:
				v.request.Warn(fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", policy.name, b.name, d.message))
				v.plugin.metrics.observe(d.took, policy.name, b.name, kind, "warn")
			case registrationv1.Audit:
				audited = append(audited, auditedFailure{d.message, policy.name, b.name, d.validation, b.actions})
				v.plugin.metrics.observe(d.took, policy.name, b.name, kind, "audit")
			}
		}
	}
	if len(audited) > 0 && v.request.Notes != nil {
		if value, err := json.Marshal(audited); err == nil {
			v.request.Annotate("validation.policy.admission.k8s.io/validation_failure", string(value))
		}
	}
}

// auditedFailure is a refusal as the audit log shows it.
type auditedFailure struct {
	Message           string                            `json:"message"`
	Policy            string                            `json:"policy"`
	Binding           string                            `json:"binding"`
	ExpressionIndex   int                               `json:"expressionIndex"`
	ValidationActions []registrationv1.ValidationAction `json:"validationActions"`
}

// publish tells the audit log the annotations of a policy. What several bindings say under one key stands there once each.
func (v *verdict) publish(policy *validations, told []annotation) {
	values := map[string][]string{}
	for _, a := range told {
		if !slices.Contains(values[a.key], a.value) {
			values[a.key] = append(values[a.key], a.value)
		}
	}
	for key, list := range values {
		v.request.Annotate(policy.name+"/"+key, strings.Join(list, ", "))
	}
}

// codes are the HTTP codes of the reasons that a validation may give.
var codes = map[metav1.StatusReason]int32{
	metav1.StatusReasonForbidden: http.StatusForbidden, metav1.StatusReasonUnauthorized: http.StatusUnauthorized,
	metav1.StatusReasonRequestEntityTooLarge: http.StatusRequestEntityTooLarge,
}

// refusal is the outcome: the first denial, if there is any.
func (v *verdict) refusal() error {
	if len(v.denials) == 0 {
		return nil
	}
	first := v.denials[0]
	return refuse(v.request.Attributes, first.text, first.reason)
}

func refuse(a *admission.Attributes, text string, reason metav1.StatusReason) error {
	err := a.Forbidden(errors.New(text))
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return err
	}
	if reason == "" {
		reason = metav1.StatusReasonInvalid
	}
	status.ErrStatus.Reason, status.ErrStatus.Code = reason, http.StatusUnprocessableEntity
	if code, known := codes[reason]; known {
		status.ErrStatus.Code = code
	}
	status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Message: text})
	return status
}
