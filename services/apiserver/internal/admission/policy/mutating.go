package policy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	k8sadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/admission/view"
	"howdah.dev/services/apiserver/internal/registry"
)

// Types tells what the fields of objects of a kind are, which a version of a resource or one of its subresources takes.
type Types func(*registry.Resource, schema.GroupVersionKind) (managedfields.TypeConverter, error)

// Mutating is the plugin MutatingAdmissionPolicy.
type Mutating struct {
	*evaluator
	index   *view.Followed[[]*mutations]
	types   Types
	metrics *metrics
}

// Name implements admission.Plugin.
func (*Mutating) Name() string { return "MutatingAdmissionPolicy" }

// Handles implements admission.Plugin.
func (p *Mutating) Handles(a *admission.Attributes) bool {
	return !p.index.Ready() || len(p.index.Get()) > 0 && !exempt(a) && a.Operation != admission.Delete
}

// rounds is what the second run must know of the first: which policies have been asked and want to be again, and which of them
// are to be, by policy, binding and parameter.
type rounds struct {
	invoked, again map[string]bool
	left           registry.Object
}

func (s *rounds) require() {
	for key := range s.invoked {
		s.again[key] = true
	}
	clear(s.invoked)
}

// Admit implements admission.Mutator.
func (p *Mutating) Admit(ctx context.Context, a *admission.Attributes) error {
	if err := p.index.Await(ctx); err != nil || exempt(a) {
		return err
	}
	state, _ := a.Memory[p.Name()].(*rounds)
	if state == nil {
		state = &rounds{invoked: map[string]bool{}, again: map[string]bool{}}
		a.Remember(p.Name(), state)
	}
	if a.Round > 0 && state.left != nil && !reflect.DeepEqual(state.left, a.Object) {
		state.require()
	}
	run := &mutation{plugin: p, state: state, occasion: occasion{request: view.New(a, p.table)}}
	for _, policy := range p.index.Get() {
		if err := run.ask(ctx, policy); err != nil {
			return admission.Final(err)
		}
	}
	if a.Round == 0 && a.Object != nil && (a.Again || len(state.invoked) > 0) {
		state.left = a.Object.DeepCopyObject().(registry.Object)
	}
	return admission.Final(run.refusal())
}

// mutation is one run of the policies over a write.
type mutation struct {
	plugin *Mutating
	state  *rounds
	occasion
	denials []denial
}

func (m *mutation) fail(policy *mutations, b *binding, err error, reason metav1.StatusReason) {
	if policy.failsOpen {
		return
	}
	text := fmt.Sprintf("policy %q denied request: %v", policy.name, err)
	if b != nil {
		text = fmt.Sprintf("policy '%s' with binding '%s' denied request: %v", policy.name, b.name, err)
	}
	m.denials = append(m.denials, denial{text, reason})
}

func (m *mutation) ask(ctx context.Context, policy *mutations) error {
	res, err := policy.match.Matches(ctx, m.request, m.plugin.objects)
	if err == nil && res == nil {
		return nil
	}
	if err == nil {
		err = policy.err
	}
	var kind *registry.Resource
	if err == nil {
		kind, err = m.plugin.paramKind(policy.params)
	}
	if err != nil {
		m.fail(policy, nil, fmt.Errorf("failed to configure policy: %w", err), "")
		return nil
	}
	for _, b := range policy.bindings {
		if err := m.bound(ctx, policy, b, res, kind); err != nil {
			return err
		}
	}
	return nil
}

func (m *mutation) bound(ctx context.Context, policy *mutations, b *binding, res, kind *registry.Resource) error {
	err := b.err
	var matched *registry.Resource
	if err == nil {
		matched, err = b.match.Matches(ctx, m.request, m.plugin.objects)
	}
	if err == nil && matched == nil {
		return nil
	}
	var params []param
	if err == nil {
		params, err = m.plugin.params(ctx, kind, b.params, m.request.Namespace)
	}
	if err != nil {
		m.fail(policy, b, fmt.Errorf("failed to configure binding: %w", err), "")
		return nil
	}
	for _, one := range params {
		key := policy.name + "/" + b.name
		if one != nil {
			key += "/" + one.GetNamespace() + "/" + one.GetName()
		}
		if m.request.Round > 0 && !m.state.again[key] {
			continue
		}
		if err := m.invoke(ctx, policy, b, res, one, key); err != nil {
			return err
		}
	}
	return nil
}

// invoke lets a policy make its mutations, one after the other. One that fails is left out, and those behind it are made.
func (m *mutation) invoke(ctx context.Context, policy *mutations, b *binding, res *registry.Resource, with param, key string) error {
	in, err := m.plugin.input(ctx, &m.occasion, res)
	if err != nil {
		return internal(err)
	}
	in.param = with
	if policy.conditions != nil {
		result := policy.conditions.Match(ctx, in.attributes, in.bindings(true).VersionedParams, in.authorizer)
		if result.Error != nil {
			m.fail(policy, b, result.Error, metav1.StatusReasonInvalid)
			return nil
		}
		if !result.Matches {
			return nil
		}
	}
	version, err := m.request.As(ctx, res)
	if err != nil {
		return internal(err)
	}
	if !version.Mutable() {
		return nil
	}
	types, err := m.plugin.types(res, version.Kind)
	if err != nil {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("Resource kind %s not found. There can be a delay between when CustomResourceDefinitions are created and when they are available.", in.attributes.VersionedKind))
	}
	if policy.reinvocable {
		m.state.invoked[key] = true
	}
	run := policy.compiler.CreateContext(ctx)
	for _, patcher := range policy.patchers {
		start := time.Now()
		changed, err := m.mutate(run, patcher, res, in, types)
		if err != nil {
			m.plugin.metrics.observe(time.Since(start), policy.name, b.name, errorType(err.Error()))
			var status *apierrors.StatusError
			if errors.As(err, &status) {
				return status
			}
			m.fail(policy, b, err, metav1.StatusReasonInvalid)
			continue
		}
		m.plugin.metrics.observe(time.Since(start), policy.name, b.name, noError)
		if !changed {
			continue
		}
		m.state.require()
		m.request.Again = true
		// What the next one sees is the object as it is now.
		if in, err = m.plugin.input(ctx, &m.occasion, res); err != nil {
			return internal(err)
		}
		in.param = with
	}
	return nil
}

func internal(err error) error {
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		return status
	}
	return apierrors.NewInternalError(err)
}

// mutate makes one mutation. It reports whether that changes anything.
func (m *mutation) mutate(ctx context.Context, p patch.Patcher, res *registry.Resource, in *input, types managedfields.TypeConverter) (bool, error) {
	out, err := p.Patch(ctx, patch.Request{
		MatchedResource: res.GVR, VersionedAttributes: in.attributes, ObjectInterfaces: maps{}, OptionalVariables: in.bindings(true),
		Namespace: in.namespace, TypeConverter: types,
	}, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return false, err
	}
	after, err := asMap(out)
	if err != nil {
		return false, err
	}
	data, err := after.MarshalJSON()
	if err != nil {
		return false, internal(err)
	}
	version, err := m.request.As(ctx, res)
	if err != nil {
		return false, internal(err)
	}
	if err := version.Check(data); err != nil {
		return false, internal(err)
	}
	changed, err := version.Replace(ctx, data)
	var status *apierrors.StatusError
	if errors.As(err, &status) && status.ErrStatus.Reason == "" { // another kind came out
		err = apierrors.NewInternalError(fmt.Errorf("failed to convert object: %w", err))
	}
	if err != nil {
		return false, internal(err)
	}
	return changed, nil
}

func asMap(obj runtime.Object) (*unstructured.Unstructured, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// maps lets patches be made of maps: all objects that expressions see are such.
type maps struct{ k8sadmission.ObjectInterfaces }

// GetObjectCreater implements k8sadmission.ObjectInterfaces.
func (maps) GetObjectCreater() runtime.ObjectCreater {
	return unstructuredscheme.NewUnstructuredCreator()
}

// GetObjectTyper implements k8sadmission.ObjectInterfaces.
func (maps) GetObjectTyper() runtime.ObjectTyper {
	return unstructuredscheme.NewUnstructuredObjectTyper()
}

// refusal is the outcome: the first failure, if there is any.
func (m *mutation) refusal() error {
	if len(m.denials) == 0 {
		return nil
	}
	err := m.request.Forbidden(errors.New("admission request denied by policy"))
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return err
	}
	status.ErrStatus.Message, status.ErrStatus.Code = m.denials[0].text, http.StatusForbidden
	if reason := m.denials[0].reason; reason != "" {
		status.ErrStatus.Reason = reason
	}
	for _, d := range m.denials {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Message: d.text})
	}
	return status
}
